// Work that goes on after a response, in a process that serves many requests: it ends before the process does.

const pendingWork = new Set<Promise<unknown>>()

export function addPendingWork(work: Promise<unknown>): void {
  const pending = work.catch(() => {}).finally(() => pendingWork.delete(pending))
  pendingWork.add(pending)
}

/** Also waits for the work that pending work starts. */
export async function finishPendingWork(): Promise<void> {
  while (pendingWork.size > 0) await Promise.all(pendingWork)
}
