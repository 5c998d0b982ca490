// The plan of a new deployment, and the button that creates it.
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Action, request } from '../../api/actions.ts'
import { getClient } from '../../api/client.ts'
import { uploadArchive } from '../../api/upload.ts'
import { formatBytes } from '../../format/size.ts'
import { CopyAs } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { toast } from '../../parts/toast.ts'
import { useListeners } from './agents.ts'
import { type Draft, type NewDeployment, toCommand, withoutValues } from './draft.ts'
import type { PackedSource } from './folder-source.tsx'
import styles from './new.module.css'
import { ProgressBar } from './progress.tsx'
import type { CreationPlan } from './use-plan.ts'

const LABELS: Record<string, string> = {
  'source_config.template_id': 'Template',
  'source_config.listener_id': 'Runs on',
  'source_config.listener_config': 'Namespace',
  'source_config.repo_url': 'Repository',
  'source_config.build_on_push': 'Deploys every push',
  'source_config.root_directory': 'Root folder',
  'source_config.install_command': 'Install command',
  'source_config.build_command': 'Build command',
  'source_revision_config.repo_ref': 'Branch',
  'source_revision_config.image_uri': 'Image',
  'source_revision_config.platform_config_path': 'Runtime configuration',
  secrets: 'Variables',
}
/** Omit members that the dialog shows elsewhere, and ids. */
const UNSHOWN = ['name', 'source', 'source_config.integration_id']

export type ReviewProps = {
  workspace: string
  draft: Draft
  body: NewDeployment
  plan: CreationPlan
  /** The files to upload before the deployment is created with them. */
  files: PackedSource | undefined
  onClose: () => void
  onCreated: (id: string) => void
}
export default function Review({ workspace, draft, body, plan, files, onClose, onCreated }: ReviewProps) {
  const [busy, setBusy] = useState(false)
  const [sent, setSent] = useState<number>()
  const [uploaded, setUploaded] = useState<{ body: NewDeployment; plan: CreationPlan }>()
  const [error, setError] = useState<Error>()
  const upload = useRef<AbortController>()
  useEffect(() => () => upload.current?.abort(), [])
  const { name } = body
  const listeners = useListeners(workspace).data?.resources ?? []
  const listener = listeners.find(({ id }) => id === body.source_config.listener_id)
  const action: Action = {
    label: `Create ${name}`,
    request: request('POST /v2/deployments', { body: withoutValues(body) }),
    command: toCommand(draft),
    done: `${name} is created.`,
  }
  async function bringFiles(archive: Blob) {
    upload.current = new AbortController()
    const { signal } = upload.current
    setSent(0)
    const { object_path } = await uploadArchive(body.source_config, archive, { signal, onProgress: setSent })
    const source_revision_config = { ...body.source_revision_config, source_tarball_path: object_path }
    const whole = { ...body, source_revision_config }
    return { body: whole, plan: await getClient().plan('POST /v2/deployments', { body: whole, signal }) }
  }
  async function create(): Promise<void> {
    setBusy(true)
    setError(undefined)
    try {
      const planned = uploaded ?? (files?.archive ? await bringFiles(files.archive) : { body, plan })
      // A warning about an archive is shown first. The page has planned a folder itself.
      if (files && !uploaded && planned.plan.warnings.length > 0) setUploaded(planned)
      else {
        const headers = { 'Plan-Digest': planned.plan.plan_digest }
        const { id } = await getClient().call('POST /v2/deployments', { body: planned.body, headers })
        toast('ok', action.done)
        return onCreated(id)
      }
    } catch (caught) {
      if (!upload.current?.signal.aborted) setError(caught as Error)
    }
    setSent(undefined)
    setBusy(false)
  }
  // Until then, its warning is that a folder has no files.
  const warnings = files ? (uploaded?.plan.warnings ?? []) : plan.warnings
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || busy) return
    event.preventDefault()
    void create()
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a shortcut of the whole dialog
    <div onKeyDown={onKeyDown}>
      <Dialog
        title={`Create ${name}?`}
        onClose={onClose}
        footer={
          <>
            <Button onClick={onClose}>Edit</Button>
            <Button look="primary" hint="Ctrl Enter" busy={busy} onClick={() => void create()}>
              {uploaded ? 'Create it nevertheless' : action.label}
            </Button>
          </>
        }
      >
        <p>
          {files
            ? 'Slipway uploads the files, creates the deployment and builds the first revision.'
            : 'Slipway creates the deployment and starts the first revision.'}
        </p>
        <dl class={styles.plan}>
          {files?.archive && (
            <div>
              <dt>Files</dt>
              <dd>
                {files.name || 'Dropped files'}, {formatBytes(files.archive.size)} to upload
              </dd>
            </div>
          )}
          {plan.changes
            .filter(({ path }) => !UNSHOWN.includes(path))
            .map(({ path, after }) => (
              <div key={path}>
                <dt>{LABELS[path] ?? path.split('.').at(-1)}</dt>
                <dd>
                  <code>{listener && after === listener.id ? listener.compute_id : describeValue(after)}</code>
                </dd>
              </div>
            ))}
        </dl>
        {warnings.map(warning => (
          <p key={warning} class={styles.warning}>
            <Glyph shape="triangle" tone="warn" />
            <Prose text={warning} />
          </p>
        ))}
        {sent !== undefined && files?.archive && (
          <ProgressBar
            text="Uploading the files"
            done={sent}
            total={files.archive.size}
            onCancel={() => upload.current?.abort(new Error('The upload was cancelled.'))}
          />
        )}
        {error && <Problem error={error} />}
        <CopyAs action={action} />
      </Dialog>
    </div>
  )
}

const describeValue = (value: unknown): string => {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.join(', ')
  if (typeof value === 'string') return value
  return value && typeof value === 'object' ? Object.values(value).join(', ') : String(value)
}
