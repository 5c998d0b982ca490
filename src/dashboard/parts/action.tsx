// A button for an action: it asks before something is lost, performs the action, reports the result, and copies the
// action as a command. The new state arrives as an event.
import type { VNode } from 'preact'
import { useId, useState } from 'preact/hooks'
import { toCommand, toCurl, type WriteRoute } from '../api/action-command.ts'
import { type Action, perform } from '../api/actions.ts'
import { type Reply, workspaceId } from '../api/client.ts'
import styles from './action.module.css'
import { Button } from './button.tsx'
import { CopyButton } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import type { IconName } from './icon.tsx'
import { Problem } from './problem.tsx'
import { toast } from './toast.ts'

type ActionOptions = {
  onDone?: ((reply: Reply<WriteRoute>) => void) | undefined
  /** The caller shows `error` beside its form. Without it, a failure is a toast. */
  showsError?: boolean
}

export function useAction({ onDone, showsError = false }: ActionOptions = {}) {
  const [asked, setAsked] = useState<Action>()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Error>()
  const [typed, setTyped] = useState('')
  const close = () => {
    setAsked(undefined)
    setError(undefined)
    setTyped('')
  }
  async function run(action: Action): Promise<void> {
    setBusy(true)
    setError(undefined)
    try {
      const reply = await perform(action.request)
      toast('ok', action.done)
      close()
      onDone?.(reply)
    } catch (caught) {
      if (asked || showsError) setError(caught as Error)
      else toast('bad', `${action.label}: failed`, (caught as Error).message)
    }
    setBusy(false)
  }
  function start(action: Action): void {
    if (action.unavailable) toast('bad', `${action.label} is not possible`, action.unavailable)
    else if (action.plan) action.plan()
    else if (action.confirm) setAsked(action)
    else void run(action)
  }
  const question: VNode | undefined = asked?.confirm && (
    <Dialog
      title={asked.confirm.title}
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button
            look={asked.confirm.isDestructive ? 'danger' : 'primary'}
            busy={busy}
            unavailable={
              asked.confirm.typed !== undefined && asked.confirm.typed !== typed.trim()
                ? `Type ${asked.confirm.typed} first.`
                : undefined
            }
            onClick={() => void run(asked)}
          >
            {asked.label}
          </Button>
        </>
      }
    >
      <p>{asked.confirm.body}</p>
      {asked.confirm.typed !== undefined && (
        <label class={styles.typed}>
          <span>
            Type <b>{asked.confirm.typed}</b> to confirm
          </span>
          <input
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={typed}
            onInput={({ currentTarget }) => setTyped(currentTarget.value)}
          />
        </label>
      )}
      <CopyAs action={asked} />
      {error && <Problem error={error} />}
    </Dialog>
  )
  return { start, busy, question, error }
}

/** The request of an action, as commands. */
export const CopyAs = ({ action: { request, copied = request, command } }: { action: Action }) => (
  <div class={styles.copy}>
    <span>The same as</span>
    <CopyButton text={() => command ?? toCommand(copied)}>command</CopyButton>
    <CopyButton text={() => toCurl(copied, location.origin, workspaceId.value)}>curl</CopyButton>
  </div>
)

type ActionButtonProps = {
  action: Action
  icon?: IconName
  small?: boolean
  look?: 'default' | 'primary' | 'bare'
  onDone?: (reply: Reply<WriteRoute>) => void
}
export function ActionButton({ action, icon, small = false, look = 'default', onDone }: ActionButtonProps) {
  const { start, busy, question } = useAction({ onDone })
  const menu = useId()
  return (
    <span class={styles.pair}>
      <Button
        small={small}
        look={look}
        icon={icon}
        busy={busy}
        unavailable={action.unavailable}
        onClick={() => start(action)}
      >
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
