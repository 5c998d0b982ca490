// The questions of an interrupted thread, and the answers that resume it.
import { useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Body, Marked, Note } from '../../parts/sections.tsx'
import { Readable } from '../traces/payload.tsx'
import { listInterrupts, type ThreadState, toResume } from './graph-types.ts'
import styles from './graphs.module.css'

type Props = {
  state: ThreadState
  isBusy: boolean
  onResume: (request: { command: { resume: unknown } } | { input: null }) => void
}

export function Interrupts({ state, isBusy, onResume }: Props) {
  const interrupts = listInterrupts(state)
  const [answers, setAnswers] = useState<string[]>([])
  if (interrupts.length === 0)
    return (
      <Card tone="warn" title={<Marked shape="held" tone="warn" children="Interrupted" />}>
        <Body>
          <Note>The run has stopped before {state.next.join(', ')}.</Note>
          <p>
            <Button look="primary" busy={isBusy} onClick={() => onResume({ input: null })}>
              Continue
            </Button>
          </p>
        </Body>
      </Card>
    )
  return (
    <Card tone="warn" title={<Marked shape="held" tone="warn" children="Waits for an answer" />}>
      <Form
        label="Answer"
        onSubmit={() => !isBusy && onResume({ command: { resume: toResume(interrupts, answers) } })}
        footer={
          <Button type="submit" look="primary" busy={isBusy}>
            Resume
          </Button>
        }
      >
        {interrupts.map(({ id, task, value }, i) => (
          <div key={id ?? i} class={styles.question}>
            <Readable value={value} />
            <TextField
              label={interrupts.length === 1 ? 'Answer' : `Answer to ${task}`}
              hint={'JSON, or text. Quotes make text of JSON: "true".'}
              rows={2}
              value={answers[i] ?? ''}
              onChange={answer => setAnswers(interrupts.map((_, at) => (at === i ? answer : (answers[at] ?? ''))))}
            />
          </div>
        ))}
      </Form>
    </Card>
  )
}
