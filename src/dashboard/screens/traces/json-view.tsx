// JSON, formatted: all of it is in the page, so the browser's own search reaches it.
import { useMemo, useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { toJson, toLineBlocks, toTokens } from './json-lines.ts'
import styles from './payload.module.css'

/** More would take the browser seconds. */
const MAX_BLOCKS = 25

export function JsonView({ value }: { value: unknown }) {
  const blocks = useMemo(() => toLineBlocks(toJson(value)), [value])
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? blocks : blocks.slice(0, MAX_BLOCKS)
  return (
    <>
      <pre class={styles.json}>
        {shown.map((lines, i) => (
          <JsonBlock key={i} lines={lines} />
        ))}
      </pre>
      {shown.length < blocks.length && (
        <Button small onClick={() => setWhole(true)}>
          Show all lines
        </Button>
      )}
    </>
  )
}

const LONG_LINE = 5_000
const JsonBlock = ({ lines }: { lines: string[] }) =>
  useMemo(
    () => (
      <code class={styles.lines}>
        {lines.map((line, i) => (
          <span key={i}>
            {line.length > LONG_LINE
              ? line
              : toTokens(line).map(({ text, kind }, place) =>
                  kind === 'mark' ? (
                    text
                  ) : (
                    <span key={place} class={styles[kind]}>
                      {text}
                    </span>
                  ),
                )}
            {'\n'}
          </span>
        ))}
      </code>
    ),
    [lines],
  )

const LONG_TEXT = 4_000

/** A text as it was meant, with its lines. */
export function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false)
  const isCut = !isWhole && text.length > LONG_TEXT * 1.25
  return (
    <>
      <p class={styles.prose}>{isCut ? `${text.slice(0, LONG_TEXT)}…` : text}</p>
      {isCut && (
        <Button small onClick={() => setWhole(true)}>
          {`Show all ${text.length.toLocaleString('en')} characters`}
        </Button>
      )}
    </>
  )
}
