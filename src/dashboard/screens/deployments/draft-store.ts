// The drafts of this tab, one for each deployment, and the plan of each. They stay until they are applied or discarded,
// or the tab closes: values of secrets are not stored anywhere.
import { effect, signal } from '@preact/signals'
import type { Deployment } from '../../format/state.ts'
import type { Draft } from './draft.ts'
import type { Plan } from './plan-words.ts'

type Ref = Pick<Deployment, 'id'>
/** The plan of a draft, or its error. */
export type Preview = { plan?: Plan; error?: Error; isPlanning: boolean }

const EMPTY: Draft = { settings: new Map(), variables: [] }
const NO_PREVIEW: Preview = { isPlanning: false }
const drafts = signal<ReadonlyMap<string, Draft>>(new Map())
const previews = signal<ReadonlyMap<string, Preview>>(new Map())

export const hasDraft = ({ id }: Ref): boolean => drafts.value.has(id)
export const draftOf = ({ id }: Ref): Draft => drafts.value.get(id) ?? EMPTY
export const previewOf = ({ id }: Ref): Preview => previews.value.get(id) ?? NO_PREVIEW

export function setDraft({ id }: Ref, draft: Draft): void {
  const next = new Map(drafts.peek())
  if (draft.settings.size + draft.variables.length > 0) next.set(id, draft)
  else next.delete(id)
  drafts.value = next
}
export function discardDraft(deployment: Ref): void {
  setDraft(deployment, EMPTY)
  setPreview(deployment, NO_PREVIEW)
}

export function setPreview({ id }: Ref, preview: Preview): void {
  previews.value = new Map(previews.peek()).set(id, preview)
}

/** The browser asks before the tab closes with a draft. */
const ask = (event: BeforeUnloadEvent) => event.preventDefault()
effect(() => {
  if (drafts.value.size > 0) addEventListener('beforeunload', ask)
  else removeEventListener('beforeunload', ask)
})
