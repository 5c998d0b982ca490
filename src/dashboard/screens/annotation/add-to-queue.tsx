// Puts a run into an annotation queue.
import { useState } from 'preact/hooks'
import { useOffsetPages } from '../../api/offset-pages.ts'
import { readAgain } from '../../api/read-again.ts'
import type { Run } from '../../api/runs.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField } from '../../parts/form.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Note } from '../../parts/sections.tsx'
import { toAddress } from '../../router/links.tsx'
import { addToQueue } from './actions.ts'

type Props = { workspace: string; run: Run; onClose: () => void }
export default function AddToQueue({ workspace, run, onClose }: Props) {
  const { items, error } = useOffsetPages(workspace, 'GET /annotation-queues', { query: {} }, { pageSize: 100 })
  const [chosen, setChosen] = useState('')
  const queue = items?.find(({ id }) => id === chosen) ?? items?.[0]
  const {
    start,
    busy,
    error: refused,
  } = useAction({
    showsError: true,
    onDone: () => {
      void readAgain('/annotation-queues')
      onClose()
    },
  })
  const action = queue && addToQueue([run.id], queue)
  return (
    <Dialog
      title={`Add ${run.name} to a queue`}
      onClose={onClose}
      footer={
        action && (
          <>
            <CopyAs action={action} />
            <Button look="primary" busy={busy} unavailable={action.unavailable} onClick={() => start(action)}>
              {action.label}
            </Button>
          </>
        )
      }
    >
      {!items && !error && <Skeleton lines={3} />}
      {error && <Problem error={error} />}
      {items?.length === 0 && (
        <>
          <Note>No annotation queues yet. Create one, then add runs to it.</Note>
          <p>
            <ButtonLink href={toAddress('/annotation/new')}>Create a queue</ButtonLink>
          </p>
        </>
      )}
      {queue && items && (
        <>
          <Note>Reviewers see it in the queue. The trace is then kept for the retention of the long-lived tier.</Note>
          <SelectField
            label="Queue"
            value={queue.id}
            onChange={setChosen}
            options={items.map(({ id, name }) => ({ value: id, label: name }))}
          />
          {refused && <Problem error={refused} />}
        </>
      )}
    </Dialog>
  )
}
