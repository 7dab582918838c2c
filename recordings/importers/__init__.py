"""Other tools' recordings, read into frames.

One module a format, each of them pure: text in, frames out, with a list of what the format does not hold.
"""
