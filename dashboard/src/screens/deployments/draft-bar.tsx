// The draft of a deployment in one line, on each page where it is edited: how much it changes, and its plan.
import { useState } from 'preact/hooks'
import { ApiError } from '../../api/client.ts'
import { useCommands } from '../../commands/commands.ts'
import type { Deployment } from '../../format/state.ts'
import { Button } from '../../parts/button.tsx'
import { UnsavedBar } from '../../parts/form.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Prose } from '../../parts/prose.tsx'
import { applyDraft } from './change-requests.ts'
import { countEdits, type Draft } from './draft.ts'
import { discardDraft, type Preview } from './drafts.ts'
import type { PlanDialogProps } from './plan-dialog.tsx'
import { isWithoutChange } from './plan-words.ts'

const PlanDialog = lazily<PlanDialogProps>(() => import('./plan-dialog.tsx'))

type DraftBarProps = { workspace: string; deployment: Deployment; draft: Draft; preview: Preview }

export function DraftBar({ workspace, deployment, draft, preview }: DraftBarProps) {
  const [isOpen, setOpen] = useState(false)
  const edits = countEdits(deployment, draft)
  const open = () => edits > 0 && setOpen(true)
  useCommands([{ id: 'plan', label: 'Plan the change', kind: 'action', keys: 'p', run: open }])
  if (edits === 0) return null
  const faults = preview.error instanceof ApiError ? preview.error.errors.length : 0
  return (
    <>
      <UnsavedBar
        actions={
          <>
            <Button onClick={() => discardDraft(deployment)}>Discard draft</Button>
            {faults > 0 && <Button onClick={showFault}>Show the first fault</Button>}
            <Button look="primary" hint="P" onClick={open} onMouseEnter={() => void PlanDialog.preload()}>
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
          onApplied={() => discardDraft(deployment)}
          onDiscard={() => discardDraft(deployment)}
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
          <span>{faults === 1 ? '1 fault, shown at its field' : `${faults} faults, shown at their fields`}</span>
        ) : (
          <Prose text={error.message} />
        )}
      </>
    )
  if (!plan) return <span>{isPlanning ? 'planning …' : 'not applied yet'}</span>
  if (isWithoutChange(plan)) return <span>the deployment is like this already</span>
  return <span>{plan.creates_revision ? 'would create a revision' : 'would take effect in place'}</span>
}
