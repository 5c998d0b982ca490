// A folder of this computer: chosen or dropped, read by the rules of the command line, and packed in the page.
import { useEffect, useRef, useState } from 'preact/hooks'
import { formatBytes } from '../../format/size.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
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
import styles from './new.module.css'
import { ProgressBar } from './progress.tsx'

export type PackedSource = {
  name: string
  configuration: string
  /** Undefined while packing, and for a folder that cannot be uploaded. */
  archive?: Blob
  folder?: Folder
  keepsSecrets?: boolean
}
type Work = { text: string; done: number; total: number | undefined }
type FolderProps = {
  packed: PackedSource | undefined
  onChange: (packed: PackedSource | undefined) => void
  /** Variables of a .env file that was found. */
  onVariables?: (text: string) => void
}

export function FolderSource({ packed, onChange, onVariables }: FolderProps) {
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
    const { name, configuration, secretFiles } = folder
    const source = { name, configuration, folder, keepsSecrets }
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
      const onFile = (count: number) => setWork({ text: `Reading: ${count} files`, done: 0, total: undefined })
      await pack(await readFolder(tree, { signal, onFile }), false, signal)
    })
  const take = (file: File) =>
    run(async () => {
      onChange(undefined)
      onChange({ name: nameOfArchive(file.name), configuration: '', archive: await checkArchive(file) })
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
              At most 200 MB packed. Excluded: <code>.git</code>, <code>node_modules</code>, <code>.env</code>, and what{' '}
              <code>.gitignore</code> and <code>.slipwayignore</code> name. The files are not uploaded yet.
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
  const count = folder && folder.files.length - (keepsSecrets ? 0 : folder.secretFiles.length)
  return (
    <div class={styles.packed} role="status">
      <Glyph shape="check" tone="ok" />
      <p>
        <b>{name || 'Dropped files'}</b>
        {folder && `, ${countFiles(count!)}, ${formatBytes(folder.bytes)}`}, packed {formatBytes(archive!.size)}
      </p>
    </div>
  )
}

type AboutProps = {
  folder: Folder
  keepsSecrets: boolean
  onKeep: (keeps: boolean) => void
  onVariables: ((text: string) => void) | undefined
}
const MAX_LISTED = 200
function About({ folder, keepsSecrets, onKeep, onVariables }: AboutProps) {
  const { files, leftOut, secretFiles, plan } = folder
  const unpacked = [...leftOut, ...(keepsSecrets ? [] : secretFiles.map(({ path }) => path))]
  const [isAdded, setAdded] = useState(false)
  const root = secretFiles.find(({ path }) => path === '.env')
  const add = async () => {
    onVariables?.(await root!.file.text())
    setAdded(true)
  }
  return (
    <>
      {plan.refusal !== null && <p class={styles.note}>{plan.refusal}</p>}
      {plan.refusal === null && (
        <div class={styles.plan}>
          <p>{plan.sentences.join(' ')}</p>
          <dl>
            {plan.steps.map(([name, text]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <code>{text}</code>
                </dd>
              </div>
            ))}
          </dl>
        </div>
      )}
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
