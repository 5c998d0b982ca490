// The plan that an action has opened, above the open screen.
import { signal } from '@preact/signals'
import type { Deployment } from '../../format/state.ts'
import { lazily } from '../../parts/lazily.tsx'
import type { PlannedChange } from './change-requests.ts'
import type { PlanDialogProps } from './plan-dialog.tsx'

const PlanDialog = lazily<PlanDialogProps>(() => import('./plan-dialog.tsx'))

export const openedPlan = signal<{ deployment: Deployment; change: PlannedChange } | undefined>(undefined)

export function OpenedPlan({ workspace }: { workspace: string }) {
  const opened = openedPlan.value
  const close = () => {
    openedPlan.value = undefined
  }
  return opened ? <PlanDialog workspace={workspace} {...opened} onClose={close} /> : null
}
