// An annotation queue: the next run for the caller to review, with its questions.
import { useRef, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { useCommands } from '../../commands/commands.ts'
import { formatCount, formatLatency } from '../../format/amount.ts'
import { ActionButton, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Icon } from '../../parts/icon.tsx'
import { PageHead } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Foot } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { Payload } from '../traces/payload.tsx'
import { Attachments, ErrorText } from '../traces/run-extras.tsx'
import { runPath } from '../traces/run-path.ts'
import { latencyOf, stateOfRun } from '../traces/run-state.ts'
import { complete, deleteQueue, postpone, type Queue, type ReviewedRun, removeFromQueue } from './actions.ts'
import styles from './annotation.module.css'
import { Questions } from './questions.tsx'

export default function QueuePage({ workspace, params }: ScreenProps<{ queue: string }>) {
  const ref = { params: { queue_id: params.queue } }
  const { data: queue, error, refetch } = useRead(workspace, 'GET /annotation-queues/{queue_id}', ref)
  const size = useRead(workspace, 'GET /annotation-queues/{queue_id}/size', {
    ...ref,
    query: { status: 'needs_my_review' },
  })
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Annotation', to: '/annotation' }, { label: queue?.name ?? '…' })
  if (isMissing(error))
    return (
      <Empty title="Queue not found" action={<ButtonLink href={toAddress('/annotation')}>Open the queues</ButtonLink>}>
        The queue was deleted, or it is in another workspace.
      </Empty>
    )
  const failed = error ?? size.error
  if (failed && !(queue && size.data)) return <Problem error={failed} onRetry={() => void refetch()} />
  if (!queue || !size.data) return <Skeleton lines={9} />
  const left = size.data.size
  return (
    <>
      <PageHead
        title={queue.name}
        meta={[
          <>
            <Icon name="pen" />
            {queue.description || 'No description'}
          </>,
          <span>
            <b>{formatCount(left)}</b> {left === 1 ? 'needs' : 'need'} your review
          </span>,
          `${formatCount(queue.total_runs)} in total`,
        ]}
      />
      {left > 0 ? (
        <Review workspace={workspace} queue={queue} />
      ) : (
        <Empty
          title={queue.total_runs === 0 ? 'No runs yet' : 'You have reviewed all runs'}
          action={<ButtonLink href={toAddress('/traces')}>Open the traces</ButtonLink>}
        >
          Open a run of a trace and press “Add to queue”.
        </Empty>
      )}
      <Foot>
        <p>
          Created <Ago time={queue.created_at} suffix=" ago" />. Id <code>{queue.id}</code>
        </p>
        <ActionButton small look="bare" action={deleteQueue(queue)} onDone={() => navigate(toAddress('/annotation'))} />
      </Foot>
    </>
  )
}

function Review({ workspace, queue }: { workspace: string; queue: Queue }) {
  const ref = { params: { queue_id: queue.id, index: 0 } }
  const { data: run, error, refetch } = useRead(workspace, 'GET /annotation-queues/{queue_id}/run/{index}', ref)
  if (error && !run) return <Problem error={error} onRetry={() => void refetch()} />
  if (!run) return <Skeleton lines={8} />
  return <ReviewRun key={run.queue_run_id} workspace={workspace} queue={queue} run={run} />
}

/** Reviews have no events. */
const showNext = () => void readAgain('/annotation-queues')

type ReviewProps = { workspace: string; queue: Queue; run: ReviewedRun }
function ReviewRun({ workspace, queue, run }: ReviewProps) {
  const { start, busy } = useAction({ onDone: showNext })
  const [isBusy, setBusy] = useState(false)
  const latest = useRef({ done: () => {}, later: () => {} })
  latest.current = { done: () => start(complete(run)), later: () => start(postpone(run)) }
  useCommands([
    { id: 'done', label: 'Complete and next run', kind: 'action', keys: 'd', run: () => latest.current.done() },
    { id: 'later', label: 'Skip this run for now', kind: 'action', keys: 's', run: () => latest.current.later() },
  ])
  const latency = latencyOf(run)
  return (
    <div class={styles.columns}>
      <section class={styles.run} aria-label={`Run ${run.name}`}>
        <header class={styles.head}>
          <h2>{run.name}</h2>
          <StateLabel state={stateOfRun(run)} />
          {latency !== undefined && <span>{formatLatency(latency)}</span>}
          {run.start_time && <Ago time={run.start_time} suffix=" ago" />}
          <ButtonLink small look="bare" icon="spans" href={toAddress(runPath(run))}>
            Open the trace
          </ButtonLink>
        </header>
        {run.error && <ErrorText error={run.error} />}
        <Payload title="Input" value={run.inputs} stored={run.inputs_s3_urls?.ROOT} nothing="No input." />
        <Payload title="Output" value={run.outputs} stored={run.outputs_s3_urls?.ROOT} nothing="No output." />
        {run.s3_urls && <Attachments urls={run.s3_urls} />}
      </section>
      <div class={styles.side}>
        <Card title="Review">
          <div class={styles.body}>
            {queue.rubric_instructions && <p class={styles.instructions}>{queue.rubric_instructions}</p>}
            <Questions workspace={workspace} queue={queue} run={run} onBusy={setBusy} />
          </div>
          <footer class={styles.footer}>
            <Button look="primary" hint="D" busy={busy || isBusy} onClick={() => latest.current.done()}>
              Complete and next
            </Button>
            <Button hint="S" busy={busy} onClick={() => latest.current.later()}>
              Skip for now
            </Button>
            <ActionButton look="bare" action={removeFromQueue(queue.id, run)} onDone={showNext} />
          </footer>
        </Card>
      </div>
    </div>
  )
}
