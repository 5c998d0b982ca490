// The agents that can run a deployment: listeners of the workspace, and the templates that all agents offer to it.
import { useState } from 'preact/hooks'
import { useRead } from '../../api/queries.ts'

const ALL = { query: { limit: 100 } }
/** The first poll of an agent has no event. */
const WAIT_MS = 3_000

export function useTemplates(workspace: string) {
  const [isEmpty, setEmpty] = useState(false)
  const read = useRead(workspace, 'GET /v2/templates', ALL, { everyMs: isEmpty && WAIT_MS })
  const isNowEmpty = read.data?.resources.length === 0
  if (isNowEmpty !== isEmpty) setEmpty(isNowEmpty)
  return read
}

export function useListeners(workspace: string) {
  const [isSilent, setSilent] = useState(false)
  const read = useRead(workspace, 'GET /v2/listeners', ALL, { everyMs: isSilent && WAIT_MS })
  const listeners = read.data?.resources ?? []
  const isNowSilent = listeners.length > 0 && listeners.every(({ last_seen_at }) => last_seen_at === null)
  if (isNowSilent !== isSilent) setSilent(isNowSilent)
  return read
}
