// Reads all runs of a trace, which takes several requests if it is long. They are shown as they arrive.
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Run, readAllRuns } from '../../api/runs.ts'
import { TREE_SELECT } from './tree.ts'

type Trace = { runs: Run[]; isDone: boolean; error: Error | undefined }
const NOTHING: Trace = { runs: [], isDone: false, error: undefined }

/** Each time, all rows that have changed are drawn. */
const SHOWN_EVERY_MS = 400
/** One that still runs is read again, unless it is long. */
const AGAIN_MS = 3_000
const MAX_READ_AGAIN = 300

export function useTrace(id: string): Trace & { readAgain: () => void } {
  const [trace, setTrace] = useState(NOTHING)
  const [version, setVersion] = useState(0)
  const readId = useRef(id)
  useEffect(() => {
    const stop = new AbortController()
    if (readId.current !== id) setTrace(NOTHING)
    readId.current = id
    void read(id, stop.signal, setTrace).catch(error => {
      if (!stop.signal.aborted) setTrace(before => ({ ...before, isDone: true, error }))
    })
    return () => stop.abort()
  }, [id, version])
  const isRunning = trace.isDone && trace.runs.some(({ status }) => status === 'pending')
  useEffect(() => {
    if (!isRunning || trace.runs.length > MAX_READ_AGAIN) return
    const timer = setInterval(() => !document.hidden && setVersion(before => before + 1), AGAIN_MS)
    return () => clearInterval(timer)
  }, [isRunning, trace.runs.length > MAX_READ_AGAIN])
  return { ...trace, readAgain: () => setVersion(before => before + 1) }
}

async function read(id: string, signal: AbortSignal, show: (change: (before: Trace) => Trace) => void): Promise<void> {
  const runs: Run[] = []
  let shownAt = performance.now()
  const query = { trace: id, select: [...TREE_SELECT], order: 'asc', limit: 100, skip_prev_cursor: true } as const
  for await (const page of readAllRuns({ ...query, select: [...TREE_SELECT] }, signal)) {
    runs.push(...page)
    if (performance.now() - shownAt < SHOWN_EVERY_MS) continue
    shownAt = performance.now()
    // While it is read again, what is there stays.
    show(before => (before.runs.length > runs.length ? before : { runs: [...runs], isDone: false, error: undefined }))
  }
  if (!signal.aborted) show(() => ({ runs, isDone: true, error: undefined }))
}
