// The last lines of a revision's log, as they arrive.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { getClient } from '../../api/client.ts'
import { Card } from '../../parts/card.tsx'
import styles from './new.module.css'

const SHOWN = 14
/** The API stores sequences of colors in this form. */
const STORED_COLOR = /␛\[[\d;]{0,20}m/g
const GATHER_MS = 100

type Line = { id: string; level: string; message: string; kind: string }

function useLastLines(deployment_id: string, revision_id: string): Line[] {
  const [lines, setLines] = useState<Line[]>([])
  useEffect(() => {
    const controller = new AbortController()
    const { signal } = controller
    let gathered: Line[] = []
    let timer: ReturnType<typeof setTimeout> | undefined
    const show = () => {
      timer = undefined
      setLines(gathered)
    }
    const follow = async () => {
      const options = { params: { deployment_id }, query: { tail: SHOWN, revision_id }, signal }
      for await (const { event, data } of getClient().stream(
        'GET /v2/deployments/{deployment_id}/logs/stream',
        options,
      )) {
        if (event !== 'message') continue
        gathered = [...gathered, data].slice(-SHOWN)
        timer ??= setTimeout(show, GATHER_MS)
      }
    }
    setLines([])
    // The state of the revision is shown elsewhere: lines that cannot be read are not an error.
    follow().catch(() => {})
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [deployment_id, revision_id])
  return lines
}

type LastLinesProps = { deployment: string; revision: string; isEnded: boolean }
export function LastLines({ deployment, revision, isEnded }: LastLinesProps) {
  const lines = useLastLines(deployment, revision)
  const list = useRef<HTMLOListElement>(null)
  useLayoutEffect(() => {
    if (list.current) list.current.scrollTop = list.current.scrollHeight
  }, [lines])
  if (lines.length === 0 && isEnded) return null
  return (
    <Card title="Log" aside={lines.length > 0 ? 'The newest lines' : undefined}>
      {lines.length === 0 && <p class={styles.aside}>No lines yet.</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reached with keys */}
      <ol ref={list} class={styles.lines} tabIndex={0} aria-label="Log">
        {lines.map(({ id, level, message }) => (
          <li key={id} class={['ERROR', 'CRITICAL'].includes(level) ? styles.errorLine : undefined}>
            {message.replace(STORED_COLOR, '')}
          </li>
        ))}
      </ol>
    </Card>
  )
}
