// A card with a form that performs one action: its fields, the button, a way out, and the request as commands.
import type { ComponentChildren } from 'preact'
import type { WriteRoute } from '../api/action-command.ts'
import type { Action } from '../api/actions.ts'
import type { Reply } from '../api/client.ts'
import { type Faults, listFaults } from '../api/faults.ts'
import { CopyAs, useAction } from '../parts/action.tsx'
import { Button, ButtonLink } from '../parts/button.tsx'
import { Card } from '../parts/card.tsx'
import { Form } from '../parts/form-frame.tsx'
import { toAddress } from '../router/links.tsx'

type Props = {
  title: string
  action: Action
  /** The path to leave to, or a function that closes the form. A form that stays has none. */
  cancel?: string | (() => void)
  onDone?: (reply: Reply<WriteRoute>) => void
  children: (faults: Faults) => ComponentChildren
}
export function ActionForm({ title, action, cancel, onDone, children }: Props) {
  const { start, busy, error } = useAction({ onDone, showsError: true })
  return (
    <Card title={title}>
      <Form
        error={error}
        label={title}
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
              {action.label}
            </Button>
            {typeof cancel === 'string' && <ButtonLink href={toAddress(cancel)}>Cancel</ButtonLink>}
            {typeof cancel === 'function' && <Button onClick={cancel}>Discard changes</Button>}
            <CopyAs action={action} />
          </>
        }
      >
        {children(listFaults(error))}
      </Form>
    </Card>
  )
}
