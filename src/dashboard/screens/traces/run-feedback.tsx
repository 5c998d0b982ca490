// The feedback on a run, and a form to add some.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { useOffsetPages } from '../../api/offset-pages.ts'
import { readAgain } from '../../api/read-again.ts'
import type { Run } from '../../api/runs.ts'
import { ActionButton, CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { More } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link } from '../../router/links.tsx'
import { deleteFeedback, giveFeedback, type NewFeedback } from './actions.ts'
import { formatScore } from './feedback-scores.ts'
import styles from './trace.module.css'

type Feedback = Reply<'GET /feedback/{feedback_id}'>

/** The feedback, and the averages of the run and its project. */
const refresh = () => void Promise.all(['/feedback', '/runs', '/sessions'].map(readAgain))

export default function RunFeedback({ workspace, run }: { workspace: string; run: Run }) {
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = useOffsetPages(
    workspace,
    'GET /feedback',
    { query: { run: [run.id], include_user_names: true } },
  )
  return (
    <>
      <Card title="Feedback">
        {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
        {!items && !error && <Skeleton lines={2} />}
        {items?.length === 0 && (
          <Body>
            <Note>No feedback yet. Add it below, with the API, or with a feedback link.</Note>
          </Body>
        )}
        {items?.map(feedback => (
          <FeedbackItem key={feedback.id} feedback={feedback} onChanged={refresh} />
        ))}
        {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
      </Card>
      <Give run={run} />
    </>
  )
}

const SOURCES: Record<string, string> = {
  api: 'a program',
  app: 'the dashboard',
  model: 'a model',
  auto_eval: 'an evaluator',
}

type ItemProps = {
  feedback: Feedback
  onChanged: () => void
  /** The subject of the feedback, where it is not clear. */
  about?: ComponentChildren
}
export function FeedbackItem({ feedback, onChanged, about }: ItemProps) {
  const { key, score, value, comment, correction, feedback_source, created_at, error } = feedback
  const by = feedback_source.user_name ?? SOURCES[feedback_source.type] ?? feedback_source.type
  const call = (feedback_source.metadata?.__run as { run_id?: string } | undefined)?.run_id
  return (
    <div class={styles.score}>
      <p>
        <b>{key}</b>
        {score !== null && <span>{formatScore(score)}</span>}
        {value !== null && value !== undefined && (
          <Badge tone="idle">{typeof value === 'string' ? value : JSON.stringify(value)}</Badge>
        )}
        {error && <Badge tone="bad">The evaluator failed</Badge>}
      </p>
      <ActionButton small look="bare" action={deleteFeedback(feedback)} onDone={onChanged} />
      {comment && <p class={styles.said}>{comment}</p>}
      {correction !== null && correction !== undefined && (
        <p class={styles.said}>
          Correction: {typeof correction === 'string' ? correction : JSON.stringify(correction)}
        </p>
      )}
      <p class={styles.who}>
        By {by}, <Ago time={created_at} suffix=" ago" />
        {call && (
          <>
            , in <Link to={`/traces/run/${call}`}>this call</Link>
          </>
        )}
        {about && <>. {about}</>}
      </p>
    </div>
  )
}

const EMPTY = { key: '', score: '', value: '', comment: '' }

function toBody(run: Run, { key, score, value, comment }: typeof EMPTY): NewFeedback {
  const number = score.trim().replace(',', '.')
  return {
    run_id: run.id,
    trace_id: run.trace_id,
    session_id: run.session_id,
    key: key.trim(),
    ...(run.start_time && { start_time: run.start_time }),
    // Send invalid numbers unchanged: the API explains what is expected.
    ...(number && { score: (Number.isNaN(Number(number)) ? number : Number(number)) as number }),
    ...(value.trim() && { value: value.trim() }),
    ...(comment.trim() && { comment: comment.trim() }),
    feedback_source: { type: 'app' },
  }
}

function Give({ run }: { run: Run }) {
  const [draft, setDraft] = useState(EMPTY)
  const { start, busy, error } = useAction({
    showsError: true,
    onDone: () => {
      setDraft(EMPTY)
      refresh()
    },
  })
  const faults = listFaults(error)
  const action = giveFeedback(toBody(run, draft))
  const field = (name: keyof typeof EMPTY) => ({
    value: draft[name],
    onChange: (value: string) => setDraft(before => ({ ...before, [name]: value })),
    fault: faultAt(faults, name),
  })
  return (
    <Card title="Give feedback">
      <Form
        label="Give feedback"
        error={error}
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
              {action.label}
            </Button>
            <CopyAs action={action} />
          </>
        }
      >
        <div class={styles.draft}>
          <TextField label="Key" placeholder="helpful" hint="The criterion of the feedback." {...field('key')} />
          <TextField
            label="Score"
            inputMode="decimal"
            placeholder="1"
            hint="A number, such as 0 or 1."
            {...field('score')}
          />
          <TextField label="Value" placeholder="good" hint="A word instead of a score." {...field('value')} />
          <TextField label="Comment" rows={2} {...field('comment')} />
        </div>
        <Note>A trace with feedback is kept for the retention of the long-lived tier.</Note>
      </Form>
    </Card>
  )
}
