// The questions about a run. An answer is feedback at once, and can be changed.
import { useRef, useState } from 'preact/hooks'
import { caller } from '../../api/client.ts'
import { useOffsetPages } from '../../api/offset-pages.ts'
import { readAgain } from '../../api/read-again.ts'
import { useCommands } from '../../commands/commands.ts'
import { useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Chip } from '../../parts/field.tsx'
import { TextField } from '../../parts/form.tsx'
import { giveFeedback, type NewFeedback } from '../traces/actions.ts'
import { formatScore } from '../traces/feedback-scores.ts'
import type { Queue, ReviewedRun } from './actions.ts'
import styles from './annotation.module.css'
import type { RubricItem } from './rubric.ts'

/** Without questions, a run is at least said to be good or not. */
const DEFAULT_ITEMS: RubricItem[] = [{ feedback_key: 'good', description: 'Is it good?' }]
const ANSWERS = [
  { score: 1, label: 'Yes' },
  { score: 0, label: 'No' },
] as const

type Props = { workspace: string; queue: Queue; run: ReviewedRun; onBusy: (busy: boolean) => void }
export function Questions({ workspace, queue, run, onBusy }: Props) {
  const items = (queue.rubric_items?.length ? queue.rubric_items : DEFAULT_ITEMS) as RubricItem[]
  const me = (caller.value?.member ?? caller.value?.api_key)?.id
  // Answers of others are hidden: they could bias the reviewer.
  const { items: given } = useOffsetPages(
    workspace,
    'GET /feedback',
    { query: { run: [run.id], ...(me && { user: [me] }) } },
    { pageSize: 100 },
  )
  const { start, error } = useAction({
    showsError: true,
    onDone: () => {
      onBusy(false)
      void readAgain('/feedback')
    },
  })
  const [comment, setComment] = useState('')
  const scoreOf = (key: string) => given?.find(one => one.key === key && one.score !== null)?.score
  // One id per key: a new answer replaces the previous one.
  const ids = useRef(new Map<string, string>())
  const idOf = (key: string) => {
    const known = given?.find(one => one.key === key)?.id ?? ids.current.get(key) ?? crypto.randomUUID()
    ids.current.set(key, known)
    return known
  }
  const send = (key: string, part: Partial<NewFeedback>) => {
    onBusy(true)
    start(
      giveFeedback({
        id: idOf(key),
        run_id: run.id,
        trace_id: run.trace_id,
        session_id: run.session_id,
        key,
        ...(run.start_time && { start_time: run.start_time }),
        feedback_source: { type: 'app' as const },
        ...part,
      }),
    )
  }
  const next = items.find(({ feedback_key }) => scoreOf(feedback_key) === undefined)
  const answer = useRef((_: number) => {})
  answer.current = score => next && send(next.feedback_key, { score })
  useCommands([
    { id: 'yes', label: 'Yes to the next question', kind: 'action', keys: 'y', run: () => answer.current(1) },
    { id: 'no', label: 'No to the next question', kind: 'action', keys: 'n', run: () => answer.current(0) },
  ])
  return (
    <>
      <ul class={styles.questions}>
        {items.map(({ feedback_key: key, description }) => {
          const score = scoreOf(key)
          return (
            <li key={key} aria-current={next?.feedback_key === key || undefined}>
              <p>
                <b>{key}</b>
                {description && <span>{description}</span>}
              </p>
              <fieldset class={styles.answers}>
                <legend>{key}</legend>
                {ANSWERS.map(one => (
                  <Chip key={one.label} pressed={score === one.score} onPress={() => send(key, { score: one.score })}>
                    {one.label}
                  </Chip>
                ))}
                {score !== undefined && score !== null && score !== 0 && score !== 1 && (
                  <span>{formatScore(score)}</span>
                )}
              </fieldset>
            </li>
          )
        })}
      </ul>
      <div class={styles.comment}>
        <TextField label="Comment" rows={2} value={comment} onChange={setComment} />
        <Button
          small
          unavailable={comment.trim() === '' ? 'Type a comment first.' : undefined}
          onClick={() => {
            send('comment', { comment: comment.trim() })
            setComment('')
          }}
        >
          Save comment
        </Button>
      </div>
      {given
        ?.filter(one => one.comment)
        .map(one => (
          <p key={one.id} class={styles.said}>
            {one.comment}
          </p>
        ))}
      {error && (
        <p class={styles.error} role="alert">
          {error.message}
        </p>
      )}
      <p class={styles.hint}>
        <kbd>Y</kbd> and <kbd>N</kbd> answer the next question.
      </p>
    </>
  )
}
