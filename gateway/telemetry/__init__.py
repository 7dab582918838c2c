"""What is told of frames to those who watch: spans, metrics, log lines. All of it is derived after the fact.

`facts` takes from a frame what may leave it, `operations` joins requests with what became of them, and `ledger`,
`metrics` and `otlp` tell of that, each in its form. `pump` moves frames off the path of messages, `hub` puts the
parts together; `audit` and `verify` read log lines back. Nothing here knows the exchange, and nothing of it is there
where no telemetry is configured.
"""
