// A folder of this computer: chosen or dropped, read by the rules of the command line, and packed in the page.
import { useEffect, useRef, useState } from 'preact/hooks'
import { formatBytes } from '../../format/size.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Prose } from '../../parts/prose.tsx'
import {
  checkArchive,
  type Folder,
  FolderError,
  isArchiveName,
  nameOfArchive,
  packFiles,
  readFolder,
  treeOfDrop,
  treeOfFiles,
} from './folder.ts'
import type { FolderPlan } from './folder-plan.ts'
import styles from './new.module.css'
import { ProgressBar } from './progress.tsx'

export type PackedSource = {
  name: string
  /** Undefined while packing, and for a folder that cannot be uploaded. */
  archive?: Blob
  folder?: Folder
  keepsSecrets?: boolean
  /** Its plan refuses it. */
  isRefused?: boolean
}
type Work = { text: string; done: number; total: number | undefined }
type FolderProps = {
  packed: PackedSource | undefined
  onChange: (packed: PackedSource | undefined) => void
  /** Variables of a .env file that was found. */
  onVariables?: (text: string) => void
  /** The folder of the application in it, or empty. */
  root: string
  /** Absent where it cannot be chosen. */
  onRoot?: (root: string) => void
}

export function FolderSource({ packed, root, onChange, onRoot, onVariables }: FolderProps) {
  const [work, setWork] = useState<Work>()
  const [error, setError] = useState<Error>()
  const [isOver, setOver] = useState(false)
  const running = useRef<AbortController>()
  const folderInput = useRef<HTMLInputElement>(null)
  const archiveInput = useRef<HTMLInputElement>(null)
  useEffect(() => () => running.current?.abort(), [])

  async function run(act: (signal: AbortSignal) => Promise<void>): Promise<void> {
    running.current?.abort()
    const controller = new AbortController()
    running.current = controller
    setError(undefined)
    try {
      await act(controller.signal)
    } catch (caught) {
      if (!controller.signal.aborted) setError(toError(caught))
    }
    if (running.current === controller) setWork(undefined)
  }

  async function pack(folder: Folder, keepsSecrets: boolean, signal: AbortSignal): Promise<void> {
    const { name, secretFiles } = folder
    const source = { name, folder, keepsSecrets }
    onChange(source)
    const files = keepsSecrets ? folder.files : folder.files.filter(file => !secretFiles.includes(file))
    const total = files.reduce((sum, { file }) => sum + file.size, 0)
    const onProgress = (done: number) => setWork({ text: 'Packing', done, total })
    const archive = await packFiles(files, { signal, onProgress })
    signal.throwIfAborted()
    onChange({ ...source, archive })
  }
  const read = (tree: Parameters<typeof readFolder>[0]) =>
    run(async signal => {
      onChange(undefined)
      onRoot?.('')
      const onFile = (count: number) => setWork({ text: `Reading: ${count} files`, done: 0, total: undefined })
      await pack(await readFolder(tree, { signal, onFile }), false, signal)
    })
  const take = (file: File) =>
    run(async () => {
      onChange(undefined)
      onChange({ name: nameOfArchive(file.name), archive: await checkArchive(file) })
    })
  const onDrop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    const { items = [] } = event.dataTransfer ?? {}
    // Entries can be asked for only while the event is handled.
    const entries = [...items].flatMap(item => item.webkitGetAsEntry() ?? [])
    const [first] = entries
    if (!first) return
    if (entries.length === 1 && first.isFile && isArchiveName(first.name))
      (first as FileSystemFileEntry).file(file => void take(file), setError)
    else void read(treeOfDrop(entries))
  }
  const cancel = () => {
    running.current?.abort()
    setWork(undefined)
    onChange(undefined)
  }
  return (
    <Card
      title="Folder"
      aside={
        packed?.archive && (
          <Button small onClick={() => folderInput.current?.click()}>
            Choose another
          </Button>
        )
      }
    >
      <section
        aria-label="Files"
        class={`${styles.drop} ${isOver ? styles.over : ''}`}
        onDragOver={event => {
          event.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={onDrop}
      >
        <input
          ref={folderInput}
          type="file"
          hidden
          {...{ webkitdirectory: true }}
          data-choose="folder"
          onChange={({ currentTarget }) => {
            const files = [...(currentTarget.files ?? [])]
            currentTarget.value = ''
            if (files.length > 0) void read(treeOfFiles(files))
          }}
        />
        <input
          ref={archiveInput}
          type="file"
          hidden
          accept=".tgz,.gz,application/gzip"
          data-choose="archive"
          onChange={({ currentTarget }) => {
            const [file] = currentTarget.files ?? []
            currentTarget.value = ''
            if (file) void take(file)
          }}
        />
        {work ? (
          <ProgressBar {...work} onCancel={cancel} />
        ) : packed?.archive ? (
          <Packed packed={packed} />
        ) : (
          <>
            <Icon name="archive" />
            <p>
              <b>Drop a folder here</b>, or an archive (.tar.gz)
            </p>
            <div class={styles.dropActions}>
              <Button onClick={() => folderInput.current?.click()}>Choose a folder</Button>
              <Button look="bare" onClick={() => archiveInput.current?.click()}>
                Choose an archive
              </Button>
            </div>
            <p class={styles.small}>
              At most 200 MB packed. Excluded: <code>.git</code>, <code>node_modules</code>, <code>.venv</code>, files
              with secrets such as <code>.env</code>, and what <code>.gitignore</code> and <code>.slipwayignore</code>{' '}
              name. The files are not uploaded yet.
            </p>
          </>
        )}
      </section>
      {error && (
        <p class={styles.folderError} role="alert">
          <Glyph shape="octagon" tone="bad" />
          {error.message}
        </p>
      )}
      {packed?.folder && packed.archive && (
        <Detected
          folder={packed.folder}
          root={root}
          onRoot={onRoot}
          onRefused={isRefused => onChange({ ...packed, isRefused })}
        />
      )}
      {packed?.folder && packed.archive && (
        <About
          folder={packed.folder}
          keepsSecrets={packed.keepsSecrets ?? false}
          onKeep={keeps => void run(signal => pack(packed.folder!, keeps, signal))}
          onVariables={onVariables}
        />
      )}
    </Card>
  )
}

const toError = (caught: unknown): Error =>
  caught instanceof FolderError
    ? caught
    : new FolderError(`The folder cannot be read: ${(caught as Error).message}. Choose it again.`)

const countFiles = (count: number) => (count === 1 ? '1 file' : `${count.toLocaleString()} files`)

function Packed({ packed: { name, folder, keepsSecrets, archive } }: { packed: PackedSource }) {
  const files = folder?.files.filter(file => keepsSecrets || !folder.secretFiles.includes(file))
  const bytes = files?.reduce((sum, { file }) => sum + file.size, 0)
  return (
    <div class={styles.packed} role="status">
      <Glyph shape="check" tone="ok" />
      <p>
        <b>{name || 'Dropped files'}</b>
        {files && `, ${countFiles(files.length)}, ${formatBytes(bytes!)}`}, packed {formatBytes(archive!.size)}
      </p>
    </div>
  )
}

type DetectedProps = {
  folder: Folder
  root: string
  onRoot: ((root: string) => void) | undefined
  onRefused: (isRefused: boolean) => void
}
/** Shows the plan of the folder, or the sentence that refuses it. */
function Detected({ folder, root, onRoot, onRefused }: DetectedProps) {
  const [plan, setPlan] = useState<FolderPlan>()
  useEffect(() => {
    let isCurrent = true
    // It is not part of what the screen loads first.
    void import('./folder-plan.ts').then(async ({ planFolder }) => {
      const found = await planFolder(folder.files, { root_directory: root.trim() || null })
      if (!isCurrent) return
      setPlan(found)
      onRefused(found.refusal !== null)
    })
    return () => {
      isCurrent = false
    }
  }, [folder, root])
  if (!plan) return <Skeleton lines={2} />
  const { refusal, roots, certain, guessed, warnings, steps } = plan
  if (refusal !== null)
    return (
      <div class={styles.note} role="alert">
        <p>
          <Prose text={refusal} />
        </p>
        {onRoot && roots.length > 0 && (
          <span class={styles.noteActions}>
            {roots.slice(0, MAX_ROOTS).map(one => (
              <Button key={one} small onClick={() => onRoot(one)}>
                {one}
              </Button>
            ))}
          </span>
        )}
      </div>
    )
  return (
    <section class={styles.found} aria-label="Detected">
      <Sentences sentences={certain} />
      <dl>
        {[...(root.trim() ? [['root', root.trim()] as const] : []), ...steps].map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <code>{text}</code>
            </dd>
          </div>
        ))}
      </dl>
      <Sentences sentences={guessed.map(sentence => `Guessed: ${sentence}`)} />
      {warnings.map(warning => (
        <p key={warning} class={styles.warning}>
          <Glyph shape="triangle" tone="warn" />
          <Prose text={warning} />
        </p>
      ))}
    </section>
  )
}
const MAX_ROOTS = 12

const Sentences = ({ sentences }: { sentences: string[] }) =>
  sentences.length > 0 ? (
    <p>
      <Prose text={sentences.join(' ')} />
    </p>
  ) : null

type AboutProps = {
  folder: Folder
  keepsSecrets: boolean
  onKeep: (keeps: boolean) => void
  onVariables: ((text: string) => void) | undefined
}
const MAX_LISTED = 200
function About({ folder, keepsSecrets, onKeep, onVariables }: AboutProps) {
  const { files, leftOut, secretFiles } = folder
  const unpacked = [...leftOut, ...(keepsSecrets ? [] : secretFiles.map(({ path }) => path))]
  const [isAdded, setAdded] = useState(false)
  const root = secretFiles.find(({ path }) => path === '.env')
  const add = async () => {
    onVariables?.(await root!.file.text())
    setAdded(true)
  }
  return (
    <>
      {secretFiles.length > 0 && (
        <div class={styles.note}>
          <p>
            {secretFiles.map(({ path }) => path).join(', ')} may contain secrets, and{' '}
            {keepsSecrets ? 'is packed. Everyone with access to the source can read it.' : 'is excluded.'}
          </p>
          <span class={styles.noteActions}>
            {root && onVariables && (
              <Button
                small
                unavailable={isAdded ? 'The variables are already added.' : undefined}
                onClick={() => void add()}
              >
                {isAdded ? 'Added as variables' : 'Add .env as variables'}
              </Button>
            )}
            <Button small look="bare" onClick={() => onKeep(!keepsSecrets)}>
              {keepsSecrets ? 'Exclude' : 'Include'}
            </Button>
          </span>
        </div>
      )}
      <details class={styles.details}>
        <summary>
          Packed files <span>{unpacked.length > 0 ? `${unpacked.length} excluded` : 'Everything'}</span>
        </summary>
        <div class={styles.lists}>
          <FileList
            title="Packed"
            paths={files.filter(file => keepsSecrets || !secretFiles.includes(file)).map(({ path }) => path)}
          />
          <FileList title="Excluded" paths={unpacked} />
        </div>
      </details>
    </>
  )
}

const FileList = ({ title, paths }: { title: string; paths: string[] }) => (
  <section>
    <h3>
      {title} <span>{paths.length.toLocaleString()}</span>
    </h3>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reached with keys */}
    <ul tabIndex={0} aria-label={title}>
      {paths.slice(0, MAX_LISTED).map(path => (
        <li key={path}>
          <code>{path}</code>
        </li>
      ))}
      {paths.length > MAX_LISTED && <li>and {(paths.length - MAX_LISTED).toLocaleString()} more</li>}
    </ul>
  </section>
)
