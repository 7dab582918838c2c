"""Who may say something before and after? The points at which extensions are asked, and the folding of their answers.

Pure: a pipeline is a generator that is given answers and faults, so a replay, a test and a live session come to the
same decisions. Read `points.py` first, then `pipeline.py`.
"""
