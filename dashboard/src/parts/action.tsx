// A button for an action: asks where something would be lost, performs it, says how it ended, and offers the same as a
// command. What the server has then comes back as an event: nothing is assumed.
import type { VNode } from 'preact'
import { useId, useState } from 'preact/hooks'
import { toCommand, toCurl } from '../api/action-command.ts'
import { type Action, perform } from '../api/actions.ts'
import { workspaceId } from '../api/client.ts'
import styles from './action.module.css'
import { Button } from './button.tsx'
import { CopyButton } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import type { IconName } from './icon.tsx'
import { Problem } from './problem.tsx'
import { toast } from './toasts.tsx'

export function useAction() {
  const [asked, setAsked] = useState<Action>()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Error>()
  const close = () => {
    setAsked(undefined)
    setError(undefined)
  }
  async function run(action: Action): Promise<void> {
    setBusy(true)
    setError(undefined)
    try {
      await perform(action.request)
      toast('ok', action.done)
      close()
    } catch (caught) {
      if (asked) setError(caught as Error)
      else toast('bad', `${action.label}: failed`, (caught as Error).message)
    }
    setBusy(false)
  }
  const start = (action: Action) => (action.confirm ? setAsked(action) : void run(action))
  const question: VNode | undefined = asked?.confirm && (
    <Dialog
      title={asked.confirm.title}
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Keep it</Button>
          <Button look={asked.confirm.isDestructive ? 'danger' : 'primary'} busy={busy} onClick={() => void run(asked)}>
            {asked.label}
          </Button>
        </>
      }
    >
      <p>{asked.confirm.body}</p>
      <CopyAs action={asked} />
      {error && <Problem error={error} />}
    </Dialog>
  )
  return { start, busy, question }
}

/** The request of an action, as commands. */
export const CopyAs = ({ action }: { action: Action }) => (
  <div class={styles.copy}>
    <span>The same as</span>
    <CopyButton text={() => action.command ?? toCommand(action.request)}>command</CopyButton>
    <CopyButton text={() => toCurl(action.request, location.origin, workspaceId.value)}>curl</CopyButton>
  </div>
)

type ActionButtonProps = { action: Action; icon?: IconName; small?: boolean; look?: 'default' | 'primary' | 'bare' }
export function ActionButton({ action, icon, small = false, look = 'default' }: ActionButtonProps) {
  const { start, busy, question } = useAction()
  const menu = useId()
  return (
    <span class={styles.pair}>
      <Button small={small} look={look} icon={icon} busy={busy} onClick={() => start(action)}>
        {action.label}
      </Button>
      <Button small={small} look={look} icon="copy" popovertarget={menu} aria-label={`Copy “${action.label}” as`} />
      <div id={menu} popover="auto" class={styles.menu}>
        <CopyAs action={action} />
      </div>
      {question}
    </span>
  )
}
