// The bar of a draft, on each page of a deployment: its edits, faults and plan.
import { useEffect, useState } from 'preact/hooks'
import { ApiError, getClient, sessionEnded } from '../../api/client.ts'
import { useCommands } from '../../commands/commands.ts'
import type { Deployment } from '../../format/state.ts'
import { Button } from '../../parts/button.tsx'
import { UnsavedBar } from '../../parts/form.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Prose } from '../../parts/prose.tsx'
import { applyDraft } from './change-requests.ts'
import { countEdits } from './draft.ts'
import { discardDraft, draftOf, type Preview, previewOf, setPreview } from './draft-store.ts'
import type { PlanDialogProps } from './plan-dialog.tsx'
import { isWithoutChange } from './plan-words.ts'

const PlanDialog = lazily<PlanDialogProps>(() => import('./plan-dialog.tsx'))
const TYPING_MS = 400

/** Plans the draft shortly after an edit, and again when the deployment has changed. */
function usePreview(deployment: Deployment): void {
  const draft = draftOf(deployment)
  const isEmpty = countEdits(deployment, draft) === 0
  useEffect(() => {
    if (isEmpty || sessionEnded.value) return setPreview(deployment, { isPlanning: false })
    const stop = new AbortController()
    setPreview(deployment, { ...previewOf(deployment), isPlanning: true })
    const timer = setTimeout(async () => {
      const { route, options } = applyDraft(deployment, draft).request(deployment)
      try {
        const plan = await getClient().plan(route, { ...options, signal: stop.signal } as never)
        setPreview(deployment, { plan, isPlanning: false })
      } catch (error) {
        if (!stop.signal.aborted) setPreview(deployment, { error: error as Error, isPlanning: false })
      }
    }, TYPING_MS)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [draft, deployment.updated_at, isEmpty, sessionEnded.value])
}

type DraftBarProps = { workspace: string; deployment: Deployment }

export default function DraftBar({ workspace, deployment }: DraftBarProps) {
  usePreview(deployment)
  return countEdits(deployment, draftOf(deployment)) > 0 ? <Bar workspace={workspace} deployment={deployment} /> : null
}

function Bar({ workspace, deployment }: DraftBarProps) {
  const [isOpen, setOpen] = useState(false)
  const draft = draftOf(deployment)
  const preview = previewOf(deployment)
  const edits = countEdits(deployment, draft)
  const open = () => setOpen(true)
  const discard = () => discardDraft(deployment)
  // The shortcut opens it at once.
  useEffect(() => void PlanDialog.preload().catch(() => {}), [])
  useCommands([{ id: 'plan', label: 'Plan the change', kind: 'action', keys: 'p', run: open }])
  const faults = preview.error instanceof ApiError ? preview.error.errors.length : 0
  return (
    <>
      <UnsavedBar
        actions={
          <>
            <Button onClick={discard}>Discard draft</Button>
            {faults > 0 && <Button onClick={showFault}>Show the first invalid field</Button>}
            <Button look="primary" hint="P" onClick={open}>
              Plan the change
            </Button>
          </>
        }
      >
        <b>{edits === 1 ? '1 edit' : `${edits} edits`}</b>
        <Summary preview={preview} faults={faults} />
      </UnsavedBar>
      {isOpen && (
        <PlanDialog
          workspace={workspace}
          deployment={deployment}
          change={applyDraft(deployment, draft)}
          onClose={() => setOpen(false)}
          onApplied={discard}
          onDiscard={discard}
        />
      )}
    </>
  )
}

const showFault = () => document.querySelector<HTMLElement>('main [aria-invalid="true"]')?.focus()

function Summary({ preview: { plan, error, isPlanning }, faults }: { preview: Preview; faults: number }) {
  if (error)
    return (
      <>
        <Glyph shape="octagon" tone="bad" />
        {faults > 0 ? (
          <span>{faults === 1 ? '1 invalid field' : `${faults} invalid fields`}</span>
        ) : (
          <Prose text={error.message} />
        )}
      </>
    )
  if (!plan) return <span>{isPlanning ? 'planning …' : 'not applied yet'}</span>
  if (isWithoutChange(plan)) return <span>no difference to the current configuration</span>
  return <span>{plan.creates_revision ? 'would create a revision' : 'would take effect in place'}</span>
}
