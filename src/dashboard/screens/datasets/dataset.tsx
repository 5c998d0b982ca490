// A dataset: the examples of one version, and its experiments.
import { useRef, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { getClient } from '../../api/client.ts'
import { useOffsetPages } from '../../api/offset-pages.ts'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { formatCount, plural } from '../../format/amount.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { ListCard, PageHead } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { formatBytes, saveFile } from '../../parts/save-file.ts'
import { Foot } from '../../parts/sections.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { toast } from '../../parts/toast.ts'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeScore, scoresOf } from '../traces/feedback-scores.ts'
import { type Dataset, deleteDataset } from './actions.ts'
import styles from './dataset.module.css'
import { AddExample, EditDataset } from './dataset-forms.tsx'
import { ExampleDialog } from './example.tsx'
import { previewOf, splitsOf } from './preview.ts'

export default function DatasetPage({ workspace, params, me }: ScreenProps<{ dataset: string }>) {
  const ref = { params: { dataset_id: params.dataset } }
  const { data: dataset, error, refetch } = useRead(workspace, 'GET /datasets/{dataset_id}', ref)
  const [open, setOpen] = useFilter('open')
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Datasets', to: '/datasets' }, { label: dataset?.name ?? '…' })
  const missing = explainMissing(me, workspace, 'datasets:update')
  const toggle = (form: string) => setOpen(open === form ? '' : form)
  if (isMissing(error))
    return (
      <Empty
        title="Dataset not found"
        action={<ButtonLink href={toAddress('/datasets')}>Open the datasets</ButtonLink>}
      >
        The dataset was deleted, or it is in another workspace.
      </Empty>
    )
  if (error && !dataset) return <Problem error={error} onRetry={() => void refetch()} />
  if (!dataset) return <Skeleton lines={9} />
  return (
    <>
      <PageHead
        title={dataset.name}
        actions={
          <>
            <Button
              look="primary"
              icon="plus"
              aria-expanded={open === 'add'}
              unavailable={missing}
              onClick={() => toggle('add')}
            >
              Add example
            </Button>
            <Download dataset={dataset} missing={explainMissing(me, workspace, 'datasets:download')} />
            <Button aria-expanded={open === 'edit'} unavailable={missing} onClick={() => toggle('edit')}>
              Edit
            </Button>
          </>
        }
        meta={[
          <>
            <Icon name="stack" />
            {dataset.description || 'No description'}
          </>,
          <span>
            <b>{formatCount(dataset.example_count)}</b> {dataset.example_count === 1 ? 'example' : 'examples'}
          </span>,
          <span>
            Changed <Ago time={dataset.modified_at} suffix=" ago" />
          </span>,
        ]}
      />
      {open === 'edit' && <EditDataset key={dataset.modified_at} dataset={dataset} onClose={() => setOpen('')} />}
      {open === 'add' && <AddExample dataset={dataset} onClose={() => setOpen('')} />}
      <Examples workspace={workspace} dataset={dataset} />
      <Experiments workspace={workspace} dataset={dataset} />
      <Foot>
        <p>
          Created <Ago time={dataset.created_at} suffix=" ago" />. Id <code>{dataset.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteDataset(dataset)}
          onDone={() => navigate(toAddress('/datasets'))}
        />
      </Foot>
    </>
  )
}

/** Downloads a file with one example in each line. */
function Download({ dataset, missing }: { dataset: Dataset; missing: string | undefined }) {
  const [bytes, setBytes] = useState<number>()
  const [version] = useFilter('version')
  async function save() {
    setBytes(0)
    try {
      const parts = getClient().download('GET /datasets/{dataset_id}/jsonl', {
        params: { dataset_id: dataset.id },
        query: { ...(version && { as_of: version }) },
      })
      const name = `${dataset.name.replace(/[^\w.-]+/g, '-')}.jsonl`
      const size = await saveFile(name, 'application/x-ndjson', parts, setBytes)
      toast('ok', `Downloaded ${dataset.name}`, formatBytes(size))
    } catch (error) {
      toast('bad', 'The download failed', (error as Error).message)
    }
    setBytes(undefined)
  }
  return (
    <Button icon="get" busy={bytes !== undefined} unavailable={missing} onClick={() => void save()}>
      {bytes ? formatBytes(bytes) : 'Download'}
    </Button>
  )
}

type Props = { workspace: string; dataset: Dataset }

function Examples({ workspace, dataset }: Props) {
  const [version, setVersion] = useFilter('version')
  const [split, setSplit] = useFilter('split')
  const [text, setText] = useFilter('q')
  const [selected, select] = useFilter('example')
  const params = { dataset_id: dataset.id }
  const versions = useOffsetPages(workspace, 'GET /datasets/{dataset_id}/versions', { params }, { pageSize: 100 })
  const asOf = version ? { as_of: version as never } : {}
  const splits = useRead(workspace, 'GET /datasets/{dataset_id}/splits', { params, query: asOf })
  const { items, error, isPartial, isPlaceholderData, refetch, ...pages } = useOffsetPages(workspace, 'GET /examples', {
    query: {
      dataset: dataset.id,
      ...asOf,
      ...(split && { splits: [split] }),
      ...(text.trim() && { full_text_contains: [text.trim()] }),
    },
  })
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = pages
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'example')
  useCommands([
    { id: 'latest', label: 'Show the latest version', kind: 'action', run: () => setFilters({ version: '' }) },
  ])
  const isFiltered = [split, text, version].some(Boolean)
  const shownVersions = (versions.items ?? []).filter(({ tags }, i) => i > 0 || !tags.includes('latest'))
  return (
    <>
      <div class={styles.filters}>
        <FilterField
          label="Filter examples by text"
          placeholder="Filter by text in inputs or outputs"
          value={text}
          onChange={setText}
          hint="/"
        />
        <div class={styles.views}>
          {splits.data && splits.data.length > 1 && (
            <>
              <Chip pressed={split === ''} onPress={() => setSplit('')}>
                All splits
              </Chip>
              {splits.data.map(name => (
                <Chip key={name} pressed={split === name} onPress={() => setSplit(split === name ? '' : name)}>
                  {name}
                </Chip>
              ))}
            </>
          )}
          <label class={styles.version}>
            <span>Version</span>
            <select value={version} onChange={({ currentTarget }) => setVersion(currentTarget.value)}>
              <option value="">Latest version</option>
              {shownVersions.map(({ as_of, tags }) => (
                <option key={as_of} value={as_of}>
                  {[formatShort(as_of), ...tags.filter(tag => tag !== 'latest')].join(', ')}
                </option>
              ))}
            </select>
          </label>
        </div>
      </div>
      {version && (
        <p class={styles.note} role="status">
          <Icon name="clock" />
          Examples of the version of {formatExact(version)}.
        </p>
      )}
      {isPartial && (
        <p class={styles.note} role="status">
          Only the first 1 MB of large inputs and outputs was searched.
        </p>
      )}
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!items && !error && <Skeleton lines={6} />}
        {items?.length === 0 && (
          <Empty
            title={isFiltered ? 'No example matches' : 'No examples yet'}
            action={
              isFiltered ? (
                <Button onClick={() => setFilters({ split: '', q: '', version: '' })}>Show all examples</Button>
              ) : (
                <ButtonLink href={toAddress('/traces')}>Open the traces</ButtonLink>
              )
            }
          >
            {isFiltered
              ? 'A link to this address has the filter.'
              : 'Open a run of a trace and press “Add to dataset”, or add an example by hand above.'}
          </Empty>
        )}
        {items && items.length > 0 && (
          <Table
            caption={`Examples of ${dataset.name}, the last changed first`}
            tableRef={table}
            isOld={isPlaceholderData}
            columns={[
              { label: 'Inputs', width: '38%' },
              { label: 'Expected outputs' },
              { label: 'Splits', width: '120' },
              { label: 'Changed', width: '84', isEnd: true },
            ]}
          >
            {items.map(example => (
              <Row key={example.id}>
                <Cell>
                  <button type="button" data-row class={rowLink} onClick={() => select(example.id)}>
                    {previewOf(example.inputs) || 'No inputs'}
                  </button>
                </Cell>
                <Cell>{previewOf(example.outputs) || <span class={styles.none}>No expected outputs</span>}</Cell>
                <Cell isWideOnly>{splitsOf(example.metadata).join(', ')}</Cell>
                <Cell isEnd>{example.modified_at && <Ago time={example.modified_at} />}</Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
      {selected && (
        <ExampleDialog
          key={selected}
          workspace={workspace}
          dataset={dataset}
          id={selected}
          version={version}
          known={items?.find(({ id }) => id === selected)}
          onClose={() => select('')}
        />
      )}
    </>
  )
}

function Experiments({ workspace, dataset }: Props) {
  const { items } = useOffsetPages(
    workspace,
    'GET /sessions',
    {
      query: {
        reference_dataset: [dataset.id],
        sort_by: 'start_time' as const,
        include_stats: true,
        stats_select: ['run_count', 'error_rate', 'feedback_stats'],
      },
    },
    { pageSize: 20 },
  )
  if (!items || items.length === 0) return null
  return (
    <div class={styles.experiments}>
      <Card title="Experiments" aside={plural(items.length, 'experiment')}>
        <Table
          caption="Experiments on this dataset, newest first"
          columns={[
            { label: 'Experiment', width: '46%' },
            { label: 'Traces' },
            { label: 'Feedback' },
            { label: 'Started', width: '96', isEnd: true },
          ]}
        >
          {items.map(project => (
            <Row key={project.id}>
              <Cell icon={<Icon name="spans" />}>
                <Link to={`/traces/${project.id}?span=400d`} class={rowLink}>
                  {project.name}
                </Link>
              </Cell>
              <Cell>{plural(project.run_count ?? 0, 'trace')}</Cell>
              <Cell>{scoresOf(project.feedback_stats).slice(0, 3).map(describeScore).join(', ')}</Cell>
              <Cell isEnd>
                <Ago time={project.start_time} />
              </Cell>
            </Row>
          ))}
        </Table>
      </Card>
    </div>
  )
}
