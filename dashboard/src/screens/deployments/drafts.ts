// The drafts of this tab, one for each deployment. They stay until they are applied or discarded, or the tab closes:
// values of secrets are not stored anywhere.
import { effect, signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { getClient, sessionEnded } from '../../api/client.ts'
import type { Deployment } from '../../format/state.ts'
import { applyDraft } from './change-requests.ts'
import { countEdits, type Draft, EMPTY_DRAFT } from './draft.ts'
import type { Plan } from './plan-words.ts'

const drafts = signal<ReadonlyMap<string, Draft>>(new Map())

export const draftOf = ({ id }: Pick<Deployment, 'id'>): Draft => drafts.value.get(id) ?? EMPTY_DRAFT

export function setDraft({ id }: Pick<Deployment, 'id'>, draft: Draft): void {
  const next = new Map(drafts.peek())
  if (draft.settings.size + draft.variables.length > 0) next.set(id, draft)
  else next.delete(id)
  drafts.value = next
}
export const discardDraft = (deployment: Pick<Deployment, 'id'>): void => setDraft(deployment, EMPTY_DRAFT)

/** The browser asks before the tab closes with a draft. */
const ask = (event: BeforeUnloadEvent) => event.preventDefault()
effect(() => {
  if (drafts.value.size > 0) addEventListener('beforeunload', ask)
  else removeEventListener('beforeunload', ask)
})

export type Preview = { plan?: Plan; error?: Error; isPlanning: boolean }
const TYPING_MS = 400

/** The plan of a draft while it is written: what it would change, and what is wrong with it. */
export function usePreview(deployment: Deployment, draft: Draft): Preview {
  const [preview, setPreview] = useState<Preview>({ isPlanning: false })
  const hasEdits = countEdits(deployment, draft) > 0
  useEffect(() => {
    if (!hasEdits || sessionEnded.value) {
      setPreview({ isPlanning: false })
      return
    }
    const stop = new AbortController()
    setPreview(old => ({ ...old, isPlanning: true }))
    const timer = setTimeout(() => {
      const { route, options } = applyDraft(deployment, draft).request(deployment)
      getClient()
        .plan(route, { ...options, signal: stop.signal } as never)
        .then(
          plan => setPreview({ plan, isPlanning: false }),
          error => stop.signal.aborted || setPreview({ error, isPlanning: false }),
        )
    }, TYPING_MS)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [draft, deployment.updated_at, hasEdits, sessionEnded.value])
  return hasEdits ? preview : { isPlanning: false }
}
