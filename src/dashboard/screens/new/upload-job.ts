// The upload of other files after a failed first revision. It goes on while its page is left, and ends with the tab.
import { signal } from '@preact/signals'
import { getClient } from '../../api/client.ts'
import { uploadArchive } from '../../api/upload.ts'

export type UploadJob = {
  /** `applying`: the files are stored, and the revision that builds them is being created. */
  state: 'uploading' | 'applying' | 'failed' | 'done'
  sent: number
  size: number
  error?: Error
  cancel: () => void
  retry: () => void
}

/** By the id of the deployment. */
export const uploadJobs = signal<ReadonlyMap<string, UploadJob>>(new Map())

const PATCH = 'PATCH /v2/deployments/{deployment_id}'

/** The browser asks before it closes the tab. */
const keepOpen = (event: Event) => event.preventDefault()

export function startUpload(deployment_id: string, archive: Blob): void {
  const controller = new AbortController()
  const { signal: aborted } = controller
  const job: UploadJob = {
    state: 'uploading',
    sent: 0,
    size: archive.size,
    cancel: () => controller.abort(new Error('The upload was cancelled.')),
    retry: () => startUpload(deployment_id, archive),
  }
  const show = (change: Partial<UploadJob>) => {
    uploadJobs.value = new Map(uploadJobs.value).set(deployment_id, Object.assign({ ...job }, change))
  }
  const run = async () => {
    show({})
    const onProgress = (sent: number) => show({ sent })
    const { object_path } = await uploadArchive({ id: deployment_id }, archive, { signal: aborted, onProgress })
    show({ state: 'applying', sent: archive.size })
    const change = { params: { deployment_id }, body: { source_revision_config: { source_tarball_path: object_path } } }
    const { plan_digest } = await getClient().plan(PATCH, change)
    await getClient().call(PATCH, { ...change, headers: { 'Plan-Digest': plan_digest } })
    show({ state: 'done', sent: archive.size })
  }
  addEventListener('beforeunload', keepOpen)
  run()
    .catch(error => show({ state: 'failed', error }))
    .finally(() => removeEventListener('beforeunload', keepOpen))
}
