// The threads of a tracing project: conversations, each of which has several traces.
import { useRef } from 'preact/hooks'
import { useThreadPages } from '../../api/thread-pages.ts'
import { useRowKeys } from '../../commands/commands.ts'
import { formatCost, formatCount, formatLatency, plural } from '../../format/amount.ts'
import { ListCard } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import type { Project } from './project.ts'
import { ProjectFrame } from './project-frame.tsx'
import { firstLine } from './run-state.ts'
import styles from './runs.module.css'
import { useSpan } from './since.ts'
import { ThreadView } from './thread.tsx'

export default function ThreadsPage({ workspace, params }: ScreenProps<{ project: string }>) {
  const [thread] = useFilter('thread')
  return (
    <ProjectFrame workspace={workspace} id={params.project} tab="/threads">
      {project =>
        thread ? (
          <ThreadView key={thread} workspace={workspace} project={project} thread={thread} />
        ) : (
          <Threads workspace={workspace} project={project} />
        )
      }
    </ProjectFrame>
  )
}

function Threads({ workspace, project }: { workspace: string; project: Project }) {
  const { span, from } = useSpan()
  const { items, error, hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage, refetch } = useThreadPages(
    workspace,
    project.id,
    from,
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'thread')
  const toThread = (id: string) =>
    `/traces/${project.id}/threads?${new URLSearchParams({ ...(span.name && { span: span.name }), thread: id })}`
  if (error && !items) return <Problem error={error} onRetry={() => void refetch()} />
  return (
    <>
      <ListCard>
        {!items && <Skeleton lines={6} />}
        {items?.length === 0 && (
          <Empty title={`No threads in the last ${span.label}`}>
            A thread is a conversation: traces whose metadata has the same <code>thread_id</code>, such as{' '}
            <code>{'{"metadata": {"thread_id": "…"}}'}</code> in the <code>extra</code> of their first run.
          </Empty>
        )}
        {items && items.length > 0 && (
          <Table
            caption={`Threads of ${project.name}, those with the latest trace first`}
            tableRef={table}
            isOld={isPlaceholderData}
            columns={[
              { label: 'Thread', width: '24%' },
              { label: 'First input and last output' },
              { label: 'Median', width: '86' },
              { label: 'Tokens', width: '92' },
              { label: 'Last trace', width: '96', isEnd: true },
            ]}
          >
            {items.map(thread => (
              <Row key={thread.thread_id}>
                <Cell detail={plural(thread.count, 'trace')}>
                  <Link to={toThread(thread.thread_id)} data-row class={rowLink} title={thread.thread_id}>
                    {thread.thread_id}
                  </Link>
                </Cell>
                <Cell
                  detail={
                    thread.last_outputs ||
                    (thread.last_error && <span class={styles.error}>{firstLine(thread.last_error)}</span>) ||
                    'No output'
                  }
                >
                  {thread.first_inputs || 'No input'}
                </Cell>
                <Cell isWideOnly>{thread.latency_p50 === null ? '–' : formatLatency(thread.latency_p50)}</Cell>
                <Cell isWideOnly detail={Number(thread.total_cost) > 0 && formatCost(thread.total_cost ?? 0)}>
                  {thread.total_tokens ? formatCount(thread.total_tokens) : '–'}
                </Cell>
                <Cell isEnd>
                  <Ago time={thread.max_start_time} />
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
