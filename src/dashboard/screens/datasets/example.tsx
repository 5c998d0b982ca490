// An example: inputs, expected outputs, and the source run.
import { useRead } from '../../api/queries.ts'
import { formatExact } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Facts } from '../../parts/sections.tsx'
import { toAddress } from '../../router/links.tsx'
import { Payload } from '../traces/payload.tsx'
import { type Dataset, deleteExample, type Example } from './actions.ts'
import styles from './dataset.module.css'
import { splitsOf } from './preview.ts'

type Props = {
  workspace: string
  dataset: Dataset
  id: string
  version: string
  known: Example | undefined
  onClose: () => void
}
export function ExampleDialog({ workspace, dataset, id, version, known, onClose }: Props) {
  const { data, error } = useRead(
    workspace,
    'GET /examples/{example_id}',
    { params: { example_id: id }, query: { dataset: dataset.id, ...(version && { as_of: version as never }) } },
    { enabled: known === undefined },
  )
  const example = known ?? data
  const { dataset_split: _, ...metadata } = (example?.metadata ?? {}) as Record<string, unknown>
  return (
    <Dialog
      wide
      title={example?.name ?? 'Example'}
      onClose={onClose}
      footer={
        example && (
          <>
            {!version && <ActionButton action={deleteExample(example)} onDone={onClose} />}
            {example.source_run_id && (
              <ButtonLink href={toAddress(`/traces/run/${example.source_run_id}`)}>Open the source run</ButtonLink>
            )}
            <Button onClick={onClose}>Close</Button>
          </>
        )
      }
    >
      {error && !example && <Problem error={error} />}
      {!example && !error && <Skeleton lines={6} height={20} />}
      {example && (
        <div class={styles.example}>
          <Payload title="Inputs" value={example.inputs} stored={undefined} nothing="No inputs." />
          <Payload title="Expected outputs" value={example.outputs} stored={undefined} nothing="No expected outputs." />
          {Object.keys(metadata).length > 0 && (
            <Payload title="Metadata" value={metadata} stored={undefined} nothing="None." />
          )}
          <Facts
            facts={[
              ['Splits', splitsOf(example.metadata).join(', ')],
              ['Changed', example.modified_at && formatExact(example.modified_at)],
              ['Id', <code>{example.id}</code>],
            ]}
          />
        </div>
      )}
    </Dialog>
  )
}
