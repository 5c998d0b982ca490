// A thread: what was said in its traces, in order.
import { useMemo } from 'preact/hooks'
import { type Run, type RunQuery, useRunPages } from '../../api/runs.ts'
import { formatCount, formatLatency } from '../../format/amount.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { More } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, toAddress } from '../../router/links.tsx'
import { lastTurn, readChat } from './messages.ts'
import { MessageItem, Readable } from './payload.tsx'
import type { Project } from './project.ts'
import { ErrorText } from './run-extras.tsx'
import { runPath } from './run-path.ts'
import { latencyOf } from './run-state.ts'
import styles from './thread.module.css'

const SELECT = [
  'id',
  'name',
  'run_type',
  'status',
  'trace_id',
  'session_id',
  'start_time',
  'end_time',
  'error',
  'inputs',
  'outputs',
  'inputs_preview',
  'outputs_preview',
  'total_tokens',
] as const satisfies NonNullable<RunQuery['select']>

type Props = { workspace: string; project: Project; thread: string }
export function ThreadView({ workspace, project, thread }: Props) {
  const query = useMemo<RunQuery>(
    () => ({
      session: [project.id],
      is_root: true,
      order: 'asc',
      select: [...SELECT],
      skip_prev_cursor: true,
      filter: `eq(thread_id, ${JSON.stringify(thread)})`,
    }),
    [project.id, thread],
  )
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = useRunPages(workspace, query)
  return (
    <>
      <header class={styles.head}>
        <ButtonLink small href={toAddress(`/traces/${project.id}/threads`)}>
          All threads
        </ButtonLink>
        <h2>{thread}</h2>
      </header>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={8} />}
      {items?.length === 0 && (
        <Empty title="This thread has no traces">The traces may have expired. The charts keep their counts.</Empty>
      )}
      <ol class={styles.turns}>
        {items?.map(run => (
          <Turn key={run.id} run={run} />
        ))}
      </ol>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}

function Turn({ run }: { run: Run }) {
  const latency = latencyOf(run)
  return (
    <li class={styles.turn}>
      <p class={styles.about}>
        <Link to={runPath(run)}>
          <Icon name="spans" />
          {run.name}
        </Link>
        {run.start_time && <Ago time={run.start_time} suffix=" ago" />}
        {latency !== undefined && <span>{formatLatency(latency)}</span>}
        {Boolean(run.total_tokens) && <span>{formatCount(run.total_tokens ?? 0)} tokens</span>}
      </p>
      <Said side="user" value={run.inputs} preview={run.inputs_preview} />
      {run.error ? (
        <ErrorText error={run.error} />
      ) : (
        <Said side="assistant" value={run.outputs} preview={run.outputs_preview} />
      )}
    </li>
  )
}

type SaidProps = { side: 'user' | 'assistant'; value: unknown; preview: string | null | undefined }
/** Shows only the new messages: a conversation is sent as a whole each time. */
function Said({ side, value, preview }: SaidProps) {
  const chat = useMemo(() => readChat(value), [value])
  const messages = chat && (side === 'user' ? lastTurn(chat.messages) : chat.messages.slice(-1))
  if (!messages && (value === null || value === undefined) && !preview) return null
  return (
    <div class={styles[side]}>
      {messages && messages.length > 0 ? (
        <ol>
          {messages.map((message, i) => (
            <MessageItem key={i} message={message} />
          ))}
        </ol>
      ) : value === null || value === undefined ? (
        // Long values are stored apart from the run.
        <p>{preview}</p>
      ) : (
        <Readable value={value} />
      )}
    </div>
  )
}
