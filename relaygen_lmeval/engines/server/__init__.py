"""Models behind HTTP: any server that speaks OpenAI's completions.

`client` moves bytes, `wire` knows the dialects, `abilities` finds out what a server can, `hints`
chooses where the server may stop early, `writing` decides where a turn ends, `engine` joins them.
"""
