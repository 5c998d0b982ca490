// The annotation queues of the workspace: runs that people review, one by one.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { useOffsetPages } from '../../api/offset-pages.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { plural } from '../../format/amount.ts'
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
import type { Queue } from './actions.ts'

const NEW = '/annotation/new'

export default function QueueList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Annotation' })
  const [name, setName] = useFilter('name')
  const [, navigate] = useLocation()
  const { items, error, hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage, refetch } = useOffsetPages(
    workspace,
    'GET /annotation-queues',
    { query: { ...(name && { name_contains: name }) } },
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'queue')
  const missing = explainMissing(me, workspace, 'annotation-queues:create')
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Create a queue', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  return (
    <>
      <PageHead
        title="Annotation"
        actions={
          <CreateLink href={toAddress(NEW)} missing={missing}>
            Create queue
          </CreateLink>
        }
      />
      <Toolbar>
        <FilterField
          label="Filter queues by name"
          placeholder="Filter by name"
          value={name}
          onChange={setName}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!items && !error && <Skeleton lines={4} />}
        {items?.length === 0 && !name && (
          <Empty
            title="No queues yet"
            action={!missing && <ButtonLink href={toAddress(NEW)}>Create a queue</ButtonLink>}
          >
            A queue has runs that people look at one by one, and give feedback on. Runs get into it from the page of
            their trace.
          </Empty>
        )}
        {items?.length === 0 && name && (
          <Empty title="No queue matches" action={<Button onClick={() => setName('')}>Show all queues</Button>}>
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {items && items.length > 0 && (
          <Table
            caption="Annotation queues, newest first"
            tableRef={table}
            isOld={isPlaceholderData}
            columns={[
              { label: 'Queue', width: '40%' },
              { label: 'Runs' },
              { label: 'Feedback', width: '26%' },
              { label: 'Changed', width: '96', isEnd: true },
            ]}
          >
            {items.map(queue => (
              <Row key={queue.id}>
                <Cell icon={<Icon name="pen" />} detail={queue.description || 'No description'}>
                  <Link to={`/annotation/${queue.id}`} data-row class={rowLink} title={queue.name}>
                    {queue.name}
                  </Link>
                </Cell>
                <Cell detail={describeReviewers(queue)}>{plural(queue.total_runs, 'run')}</Cell>
                <Cell isWideOnly>
                  {(queue.rubric_items ?? []).map(({ feedback_key }) => feedback_key).join(', ') || '–'}
                </Cell>
                <Cell isEnd>
                  <Ago time={queue.updated_at} />
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

const describeReviewers = ({ num_reviewers_per_item, assigned_reviewers, reviewer_access_mode }: Queue): string => {
  const each = plural(num_reviewers_per_item ?? (assigned_reviewers.length || 1), 'reviewer')
  return reviewer_access_mode === 'assigned' ? `${each} each, who are assigned` : `${each} each`
}
