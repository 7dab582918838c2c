"""What the gateway adds to a call, measured: sides, clients, rounds, figures. `tieline bench` is its shell.

`sides` starts direct connections and gateway chains, `client` drives them with requests that are made beforehand,
`rounds` turns samples into figures, `results` is what a run tells. Nothing else of the gateway imports it.
"""
