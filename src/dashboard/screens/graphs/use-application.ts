// Reads of an application that serves graphs, and a run that is streamed.
import { useInfiniteQuery, useQuery } from '@tanstack/preact-query'
import { useEffect, useRef, useState } from 'preact/hooks'
import { EventStreamParser } from '../../../client/event-stream.ts'
import { Application, type ApplicationRequest } from '../../api/application.ts'
import { ConnectionError } from '../../api/client.ts'
import { queryClient } from '../../api/queries.ts'
import type { GraphRun } from './graph-types.ts'
import { applyEvent, NOTHING, STREAM_MODES, type Streamed } from './run-events.ts'

export type Graphs = { application: Application; deployment: string }

/** The connection lasts as long as the screen. */
export function useGraphs(deployment: string): Graphs | undefined {
  const [graphs, setGraphs] = useState<Graphs>()
  useEffect(() => {
    const application = new Application(deployment)
    setGraphs({ application, deployment })
    return () => application.close()
  }, [deployment])
  return graphs
}

const keyOf = ({ deployment }: Graphs, ...rest: unknown[]) => ['application', deployment, ...rest]

type ReadOptions = { enabled?: boolean; everyMs?: number | false }
type Read = Omit<ApplicationRequest, 'signal'>
export const useGraphRead = <Reply>(graphs: Graphs, request: Read, { enabled, everyMs }: ReadOptions = {}) =>
  useQuery<Reply, Error>({
    queryKey: keyOf(graphs, request.path, request.body),
    queryFn: ({ signal }) => graphs.application.read<Reply>({ ...request, signal }),
    enabled: enabled ?? true,
    refetchInterval: everyMs ?? false,
  })

/** Pages of a search by `offset`, or by what `after` names of the last item. */
export function useGraphPages<Item>(
  graphs: Graphs,
  path: string,
  body: object,
  { size, after, everyMs = false }: { size: number; after?: (last: Item) => object; everyMs?: number | false },
) {
  const { data, ...query } = useInfiniteQuery({
    queryKey: keyOf(graphs, path, body, 'pages'),
    queryFn: ({ signal, pageParam }) =>
      graphs.application.read<Item[]>({ method: 'POST', path, body: { ...body, ...pageParam, limit: size }, signal }),
    initialPageParam: {} as object,
    getNextPageParam: (page: Item[], pages: Item[][]) =>
      page.length < size ? undefined : after ? after(page.at(-1)!) : { offset: pages.length * size },
    refetchInterval: everyMs,
    placeholderData: previous => previous,
  })
  return { ...query, items: data?.pages.flat() }
}

/** Reads again what a run may have changed. */
const readAgain = (graphs: Graphs) => queryClient.invalidateQueries({ queryKey: keyOf(graphs) })

const JOIN_AGAIN = [500, 1000, 2000, 4000, 8000]
const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** A run of a thread, followed from its first event. It goes on if the page closes. */
export function useRun(graphs: Graphs, thread: string) {
  const [streamed, setStreamed] = useState<Streamed>(NOTHING)
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<Error>()
  const current = useRef<AbortController>()
  useEffect(() => () => current.current?.abort(), [])

  /** Shows the error of `work`, and what has changed after it. */
  async function during(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const control = new AbortController()
    current.current?.abort()
    current.current = control
    const { signal } = control
    setStreamed(NOTHING)
    setError(undefined)
    setBusy(true)
    try {
      await work(signal)
    } catch (caught) {
      if (!signal.aborted) setError(caught as Error)
    }
    if (!signal.aborted) await readAgain(graphs)
    if (!signal.aborted) setBusy(false)
  }

  async function follow(run: string, signal: AbortSignal): Promise<void> {
    let state: Streamed = { ...NOTHING, runId: run }
    setStreamed(state)
    let lastId = '-1'
    for (let failures = 0; ; ) {
      try {
        const path = `/threads/${thread}/runs/${run}/stream`
        const headers = { 'Last-Event-ID': lastId }
        const response = await graphs.application.send({ method: 'GET', path, headers, signal })
        for await (const { event, data, id } of readEvents(response)) {
          failures = 0
          lastId = id ?? lastId
          state = applyEvent(state, event, JSON.parse(data))
          if (!signal.aborted) setStreamed(state)
        }
        return
      } catch (caught) {
        const wait = caught instanceof ConnectionError ? JOIN_AGAIN[failures++] : undefined
        if (signal.aborted || wait === undefined) throw caught
        await pause(wait)
      }
    }
  }

  return {
    streamed,
    isBusy,
    error,
    start: (request: object) =>
      during(async signal => {
        const { run_id } = await startRun(graphs, thread, request)
        await follow(run_id, signal)
      }),
    join: (run: string) => during(signal => follow(run, signal)),
  }
}

export const startRun = ({ application }: Graphs, thread: string, request: object): Promise<GraphRun> =>
  application.read({
    method: 'POST',
    path: `/threads/${thread}/runs`,
    body: { ...request, stream_mode: STREAM_MODES },
  })

async function* readEvents(response: Response) {
  const parser = new EventStreamParser()
  const decoder = new TextDecoder()
  const reader = response.body!.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    for (const parsed of parser.push(decoder.decode(value, { stream: true }))) yield { ...parsed, id: parser.lastId }
  }
}
