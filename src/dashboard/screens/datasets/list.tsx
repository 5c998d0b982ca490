// The datasets of the workspace: examples to evaluate applications with.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { useOffsetPages } from '../../api/offset-pages.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { formatCount, plural } from '../../format/amount.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { CreateLink, ListCard, PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'

const NEW = '/datasets/new'

export default function DatasetList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Datasets' })
  const [name, setName] = useFilter('name')
  const [, navigate] = useLocation()
  const { items, error, hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage, refetch } = useOffsetPages(
    workspace,
    'GET /datasets',
    { query: { sort_by: 'modified_at', ...(name && { name_contains: name }) } },
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'dataset')
  const missing = explainMissing(me, workspace, 'datasets:create')
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Create a dataset', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  return (
    <>
      <PageHead
        title="Datasets"
        actions={
          <CreateLink href={toAddress(NEW)} missing={missing}>
            Create dataset
          </CreateLink>
        }
      />
      <Toolbar>
        <FilterField
          label="Filter datasets by name"
          placeholder="Filter by name"
          value={name}
          onChange={setName}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!items && !error && <Skeleton lines={5} />}
        {items?.length === 0 && !name && (
          <Empty
            title="No datasets yet"
            action={!missing && <ButtonLink href={toAddress(NEW)}>Create a dataset</ButtonLink>}
          >
            A dataset has examples: inputs, and the outputs that are expected for them. Runs of a trace become examples
            with one press, and an evaluation runs your application on all of them.
          </Empty>
        )}
        {items?.length === 0 && name && (
          <Empty title="No dataset matches" action={<Button onClick={() => setName('')}>Show all datasets</Button>}>
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {items && items.length > 0 && (
          <Table
            caption="Datasets, the last changed first"
            tableRef={table}
            isOld={isPlaceholderData}
            columns={[
              { label: 'Dataset', width: '46%' },
              { label: 'Examples' },
              { label: 'Experiments' },
              { label: 'Changed', width: '96', isEnd: true },
            ]}
          >
            {items.map(dataset => (
              <Row key={dataset.id}>
                <Cell icon={<Icon name="stack" />} detail={dataset.description || 'No description'}>
                  <Link to={`/datasets/${dataset.id}`} data-row class={rowLink} title={dataset.name}>
                    {dataset.name}
                  </Link>
                </Cell>
                <Cell>{plural(dataset.example_count, 'example')}</Cell>
                <Cell
                  isWideOnly
                  detail={dataset.last_session_start_time && <LastExperiment time={dataset.last_session_start_time} />}
                >
                  {formatCount(dataset.session_count)}
                </Cell>
                <Cell isEnd>
                  <Ago time={dataset.modified_at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}

const LastExperiment = ({ time }: { time: string }) => (
  <>
    The last <Ago time={time} suffix=" ago" />
  </>
)
