// Cards about a receiver of messages: why it gets none, and its answer to a test.
import type { ComponentChildren } from 'preact'
import type { State } from '../format/state.ts'
import { Button } from '../parts/button.tsx'
import { Card } from '../parts/card.tsx'
import { Body, Marked, Note } from '../parts/sections.tsx'

type HealthProps = { state: State; why: string | undefined; children?: ComponentChildren }
export const HealthCard = ({ state, why, children }: HealthProps) =>
  why ? (
    <Card
      tone={state.tone === 'bad' || state.tone === 'warn' ? state.tone : undefined}
      title={<Marked {...state}>{state.word}</Marked>}
    >
      <Body>
        <Note>{why}</Note>
        {children}
      </Body>
    </Card>
  ) : null

type TestProps = {
  /** Such as `test event`. */
  thing: string
  tested: { delivered: boolean; duration_ms: number }
  answer: string
  onClose: () => void
  children?: ComponentChildren
}
export const TestResult = ({ thing, tested: { delivered, duration_ms }, answer, onClose, children }: TestProps) => (
  <Card
    tone={delivered ? undefined : 'bad'}
    title={
      <Marked shape={delivered ? 'check' : 'octagon'} tone={delivered ? 'ok' : 'bad'}>
        The {thing} was {delivered ? 'accepted' : 'not accepted'}
      </Marked>
    }
    aside={
      <>
        {duration_ms} ms
        <Button small look="bare" icon="cross" aria-label={`Hide the ${thing}`} onClick={onClose} />
      </>
    }
  >
    <Body>
      <Note>{answer}</Note>
      {children}
    </Body>
  </Card>
)
