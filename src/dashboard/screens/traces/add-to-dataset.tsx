// Makes an example of a run: its inputs, and its outputs as what is expected.
import { useState } from 'preact/hooks'
import { useOffsetPages } from '../../api/offset-pages.ts'
import type { Run } from '../../api/runs.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Note } from '../../parts/sections.tsx'
import { toAddress } from '../../router/links.tsx'
import { addToDataset } from './actions.ts'

type Props = { workspace: string; run: Run; onClose: () => void }
export default function AddToDataset({ workspace, run, onClose }: Props) {
  const { items, error } = useOffsetPages(
    workspace,
    'GET /datasets',
    { query: { sort_by: 'modified_at' } },
    { pageSize: 100 },
  )
  const [chosen, setChosen] = useState('')
  const [split, setSplit] = useState('')
  const dataset = items?.find(({ id }) => id === chosen) ?? items?.[0]
  const { start, busy, error: refused } = useAction({ onDone: onClose, showsError: true })
  const action = dataset && addToDataset(run, dataset, split.trim())
  return (
    <Dialog
      title={`Add ${run.name} to a dataset`}
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
          <Note>No datasets yet. Create one, then add runs to it.</Note>
          <p>
            <ButtonLink href={toAddress('/datasets')}>Open the datasets</ButtonLink>
          </p>
        </>
      )}
      {dataset && items && (
        <>
          <Note>
            The example has the inputs of the run, and its outputs as expected outputs. The dataset gets a new version.
          </Note>
          <SelectField
            label="Dataset"
            value={dataset.id}
            onChange={setChosen}
            options={items.map(({ id, name }) => ({ value: id, label: name }))}
          />
          <TextField label="Split" value={split} onChange={setSplit} placeholder="base" />
          {refused && <Problem error={refused} />}
        </>
      )}
    </Dialog>
  )
}
