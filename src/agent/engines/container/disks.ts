// Copies the volumes of disks as archives, through a container that has one mounted and is never started.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { deploymentLabels, type Labels, ROLE_LABEL } from '../../images/container-labels.ts'
import { type DockerApi, DockerApiError } from '../../images/docker-api.ts'

/** With a host, which engines read names without differently. */
const IMAGE = 'localhost/slipway-disk'
const TAG = '1'
/** The role of a container that copies files. */
export const COPY_ROLE = 'copy'
const MOUNT = '/disk'
const ARCHIVE = 'disk.tar'
/** Claims with these names would be the volumes of the agent. */
export const RESERVED_CLAIMS = new Set(['cache', 'database', 'redis'])
const BLOCK_BYTES = 512
const REMOVE_MS = 30_000
const RETRY_MS = 200

type Place = { api: DockerApi; owner: string; deployment_id: string; volume: string }

export async function archiveVolume(place: Place, folder: string, signal: AbortSignal): Promise<void> {
  await withVolume(place, async id => {
    const files = await place.api.readFiles(id, `${MOUNT}/.`, signal)
    await pipeline(files, fs.createWriteStream(join(folder, ARCHIVE), { mode: 0o600 }), { signal })
  })
}

/** Nothing uses the volume. It is made anew, with its labels. */
export async function replaceVolume(place: Place, folder: string): Promise<void> {
  const { api, volume } = place
  const { Labels = {} } = (await api.getIfExists<{ Labels?: Labels }>(`/volumes/${volume}`)) ?? {}
  await removeEndedUsers(api, volume)
  await removeVolume(api, volume)
  const ofDeployment = deploymentLabels(place.owner, place.deployment_id)
  await api.ensureVolume({ Name: volume, Driver: 'local', Labels: { ...Labels, ...ofDeployment } })
  await withVolume(place, async id => {
    const headers = { 'Content-Type': 'application/x-tar' }
    const body = fs.createReadStream(join(folder, ARCHIVE))
    await api.ask('PUT', `/containers/${id}/archive`, { query: { path: MOUNT }, headers, body, timeoutMs: 0 })
  })
}

/** The container of a release command stays after its end, and an engine removes no volume that one has mounted. */
async function removeEndedUsers(api: DockerApi, volume: string): Promise<void> {
  const query = { all: true, filters: { volume: [volume] } }
  const users = await api.get<{ Id: string; State: string }[]>('/containers/json', query)
  for (const { Id, State } of users) if (State === 'exited') await api.removeContainer(Id)
}

/** A container that is being removed still uses it. */
export async function removeVolume(api: DockerApi, volume: string): Promise<void> {
  for (const until = Date.now() + REMOVE_MS; ; await delay(RETRY_MS))
    try {
      await api.requestIfExists('DELETE', `/volumes/${volume}`)
      return
    } catch (error) {
      if (!(error instanceof DockerApiError && error.status === 409) || Date.now() > until) throw error
    }
}

async function withVolume(
  { api, owner, deployment_id, volume }: Place,
  work: (id: string) => Promise<void>,
): Promise<void> {
  await ensureImage(api)
  const { Id } = await api.post<{ Id: string }>('/containers/create', {
    Image: `${IMAGE}:${TAG}`,
    Cmd: ['/none'],
    Labels: { ...deploymentLabels(owner, deployment_id), [ROLE_LABEL]: COPY_ROLE },
    HostConfig: { NetworkMode: 'none', Mounts: [{ Type: 'volume', Source: volume, Target: MOUNT }] },
  })
  await work(Id).finally(() => api.removeContainer(Id))
}

/** The image is made of an empty archive: nothing in it runs. */
async function ensureImage(api: DockerApi): Promise<void> {
  if (await api.getIfExists(`/images/${IMAGE}:${TAG}/json`)) return
  const body = Readable.from([Buffer.alloc(2 * BLOCK_BYTES)])
  const headers = { 'Content-Type': 'application/x-tar' }
  let id: string | undefined
  for await (const { status } of api.streamProgress('/images/create', { query: { fromSrc: '-' }, headers, body }))
    id = /[0-9a-f]{64}/.exec(status ?? '')?.[0] ?? id
  if (!id) throw new Error('The container engine did not import an empty image.')
  // Podman ignores a name in the import.
  await api.post(`/images/${id}/tag`, undefined, { repo: IMAGE, tag: TAG })
}
