// Inputs or outputs of a run: messages as messages, other members by their names, and all of it as JSON. What is stored
// apart is read when a person asks for it.
import { useMemo, useState } from 'preact/hooks'
import { getClient } from '../../api/client.ts'
import { formatBytes } from '../../format/size.ts'
import { Button } from '../../parts/button.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Problem } from '../../parts/problem.tsx'
import { toJson } from './json-lines.ts'
import { JsonView, LongText } from './json-view.tsx'
import { type Message, type Part, readChat } from './messages.ts'
import styles from './payload.module.css'

export type StoredUrl = { presigned_url: string }
type PayloadProps = {
  title: string
  value: unknown
  /** The URL of a value that is stored apart from the run. */
  stored: StoredUrl | undefined
  /** The text that explains why there is no value. */
  nothing: string
}

export function Payload({ title, value, stored, nothing }: PayloadProps) {
  const [loaded, setLoaded] = useState<{ value: unknown }>()
  const [isJson, setJson] = useState(false)
  const shown = loaded ? loaded.value : value
  const isThere = shown !== null && shown !== undefined && !isEmpty(shown)
  return (
    <section class={styles.card} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {isThere && (
          <div class={styles.tools}>
            <Button small look="bare" aria-pressed={isJson} onClick={() => setJson(!isJson)}>
              {isJson ? 'Readable' : 'JSON'}
            </Button>
            <CopyButton text={() => toJson(shown)} label={`Copy the ${title.toLowerCase()} as JSON`} />
          </div>
        )}
      </header>
      <div class={styles.body}>
        {isThere ? (
          isJson ? (
            <JsonView value={shown} />
          ) : (
            <Readable value={shown} />
          )
        ) : stored && !loaded ? (
          <LoadStored title={title} stored={stored} onLoad={setLoaded} />
        ) : (
          <p class={styles.nothing}>{nothing}</p>
        )}
      </div>
    </section>
  )
}

const isEmpty = (value: unknown) => typeof value === 'object' && value !== null && Object.keys(value).length === 0

/** Parameters of a signed URL. The page asks its own origin, whatever the installation calls itself. */
export function toObjectPath({ presigned_url }: StoredUrl): string {
  const { pathname, search } = new URL(presigned_url, location.origin)
  return pathname + search
}

type LoadProps = { title: string; stored: StoredUrl; onLoad: (loaded: { value: unknown }) => void }
function LoadStored({ title, stored, onLoad }: LoadProps) {
  const [bytes, setBytes] = useState<number>()
  const [error, setError] = useState<Error>()
  async function load() {
    setBytes(0)
    setError(undefined)
    try {
      onLoad({ value: await readStored(stored, setBytes) })
    } catch (caught) {
      setBytes(undefined)
      setError(caught as Error)
    }
  }
  return (
    <>
      <p class={styles.nothing}>Large values are stored separately from the run.</p>
      <p class={styles.buttons}>
        <Button busy={bytes !== undefined} icon="get" onClick={() => void load()}>
          {bytes ? `Reading, ${formatBytes(bytes)}` : `Show the ${title.toLowerCase()}`}
        </Button>
        <a class={styles.link} href={toObjectPath(stored)} download>
          Download
        </a>
      </p>
      {error && <Problem error={error} />}
    </>
  )
}

async function readStored(stored: StoredUrl, onProgress: (bytes: number) => void): Promise<unknown> {
  const url = new URL(stored.presigned_url, location.origin)
  const [, run_id = '', name = ''] = /\/runs\/([^/]+)\/objects\/([^/]+)$/.exec(url.pathname) ?? []
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  const parts = getClient().download(
    'GET /runs/{run_id}/objects/{name}' as never,
    {
      params: { run_id, name: decodeURIComponent(name) },
      query: Object.fromEntries(url.searchParams),
    } as never,
  )
  for await (const part of parts) {
    text += decoder.decode(part, { stream: true })
    bytes += part.length
    onProgress(bytes)
  }
  return JSON.parse(text + decoder.decode())
}

export function Readable({ value }: { value: unknown }) {
  const chat = useMemo(() => readChat(value), [value])
  if (chat)
    return (
      <>
        <ol class={styles.messages}>
          {chat.messages.map((message, i) => (
            <MessageItem key={i} message={message} />
          ))}
        </ol>
        <Members value={chat.rest} isFolded />
      </>
    )
  if (typeof value === 'string') return <LongText text={value} />
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (
    <Members value={value as Record<string, unknown>} />
  ) : (
    <JsonView value={value} />
  )
}

/** Members with a short value first are easier to read, but their order can mean something: it stays. */
function Members({ value, isFolded = false }: { value: Record<string, unknown>; isFolded?: boolean }) {
  const entries = Object.entries(value).filter(([, one]) => one !== null && one !== undefined)
  if (entries.length === 0) return null
  const list = (
    <dl class={styles.members}>
      {entries.map(([name, one]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof one === 'string' ? <LongText text={one} /> : <JsonView value={one} />}</dd>
        </div>
      ))}
    </dl>
  )
  if (!isFolded) return list
  return (
    <details class={styles.rest}>
      <summary>{entries.map(([name]) => name).join(', ')}</summary>
      {list}
    </details>
  )
}

const ROLE_WORDS: Record<string, string> = {
  user: 'User',
  assistant: 'Assistant',
  system: 'System',
  developer: 'Developer',
  tool: 'Tool',
  message: 'Message',
}

export const MessageItem = ({ message: { role, name, parts } }: { message: Message }) => (
  <li class={`${styles.message} ${styles[role] ?? ''}`}>
    <h3>
      {ROLE_WORDS[role] ?? role}
      {name && <span>{name}</span>}
    </h3>
    {parts.length === 0 && <p class={styles.nothing}>Empty</p>}
    {parts.map((part, i) => (
      <PartItem key={i} part={part} />
    ))}
  </li>
)

function PartItem({ part }: { part: Part }) {
  if (part.kind === 'text') return <LongText text={part.text} />
  if (part.kind === 'thinking')
    return (
      <details class={styles.rest}>
        <summary>Thinking</summary>
        <LongText text={part.text} />
      </details>
    )
  if (part.kind === 'call')
    return (
      <div class={styles.call}>
        <p>
          <Icon name="right" />
          Calls <code>{part.name}</code>
        </p>
        {part.args !== undefined && !isEmpty(part.args) && <JsonView value={part.args} />}
      </div>
    )
  return (
    <details class={styles.rest}>
      <summary>{part.label}</summary>
      <JsonView value={part.value} />
    </details>
  )
}
