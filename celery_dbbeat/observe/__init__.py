"""What a process shows of itself: numbers, whether it lives and is ready, and what its log says.

The lowest layer: everything above may say what happened, by the verbs of `observe.beat` and
`observe.worker`, one line each; nothing here asks anything of them.

    beat, worker ──verbs──▶ board (numbers in memory) ──▶ exposition ─┐
         └───────────passes──▶ pulse (lives, is ready) ───────────────┴──▶ server

- Without an address to serve (`dbbeat_http`, `dbbeat_worker_http`) there is no board, and a verb is
  one look at None.
- Labels have the values that the catalogue lists and no others: what schedules and tasks are called
  never becomes a label, so that the number of series does not grow with their number.
- The server's thread reads single numbers and whole values that are replaced, never changed. It
  takes no lock that a pass needs, and waits for nothing of it: a probe is answered while a pass
  hangs, and a pass goes on while a probe does.
"""
