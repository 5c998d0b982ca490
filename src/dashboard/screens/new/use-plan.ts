// Checks a draft as it is typed: its own plan lists every fault at its field, and is what will be applied.
import { useEffect, useState } from 'preact/hooks'
import type { Plan } from '../../../client/client.ts'
import { ApiError, getClient } from '../../api/client.ts'
import { listFaults, NO_FAULTS } from '../../api/faults.ts'
import { type Draft, fieldOf, isChosen, type NewDeployment, toRequest } from './draft.ts'

export type CreationPlan = Plan<'POST /v2/deployments'>
export type Checked = {
  /** The plan is of this draft, not of an earlier one. */
  isCurrent: boolean
  body?: NewDeployment
  plan?: CreationPlan
  faults: Map<string, string>
  /** A refusal that is about no field. */
  error?: Error
}

const TYPING_MS = 250
const NOTHING: Checked = { isCurrent: false, faults: new Map(NO_FAULTS) }

async function check(draft: Draft, signal: AbortSignal): Promise<Checked> {
  const ask = (body: NewDeployment) => getClient().plan('POST /v2/deployments', { body, signal })
  let body = toRequest(draft, false)
  const isOtherMode = (error: unknown) =>
    draft.way === 'image' && error instanceof ApiError && error.errors.some(({ type }) => type === 'source_mode')
  try {
    // Only the answer tells for which kind of images the installation is set up.
    const plan = await ask(body).catch(error => {
      if (!isOtherMode(error)) throw error
      body = toRequest(draft, true)
      return ask(body)
    })
    return { isCurrent: true, body, plan, faults: new Map() }
  } catch (caught) {
    signal.throwIfAborted()
    const error = caught as Error
    const faults = new Map(listFaults(error))
    const field = error instanceof ApiError && faults.size === 0 ? fieldOf(error.code, error.message) : undefined
    if (field) faults.set(field, error.message)
    return { isCurrent: true, body, faults, ...(faults.size === 0 && { error }) }
  }
}

/** `hasFiles`: a folder was chosen and read. */
export function usePlan(draft: Draft, hasFiles: boolean): Checked {
  const [checked, setChecked] = useState(NOTHING)
  const isReady = isChosen(draft, hasFiles)
  const key = isReady ? JSON.stringify(draft) : ''
  const [shownKey, setShownKey] = useState('')
  useEffect(() => {
    if (!isReady) return
    const controller = new AbortController()
    const timer = setTimeout(() => {
      check(draft, controller.signal).then(
        result => {
          setChecked(result)
          setShownKey(key)
        },
        () => {},
      )
    }, TYPING_MS)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [key])
  if (!isReady) return NOTHING
  return shownKey === key ? checked : { ...checked, isCurrent: false }
}
