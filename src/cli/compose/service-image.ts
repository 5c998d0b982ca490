// The image of a service: copied into the registry of the installation, or pulled by the agent from where it is.
import { toName } from '../../client/archive-rules.ts'
import type { Reply } from '../../client/client.ts'
import { ApiError } from '../../client/errors.ts'
import { copyImage, readImage, type SourceImage } from '../images/copy-image.ts'
import { formatBytes } from '../output.ts'
import { planNewImage } from '../remote-sources.ts'
import type { Deployment, Session } from '../session.ts'
import type { Planned } from './translate.ts'

type PushToken = Reply<'POST /v2/push-tokens'>
export type ImageCopy = { image: SourceImage; target: PushToken }

/** Decides the source and the image of the document. Null: nothing is to be copied. */
export async function openImage(
  session: Session,
  { service, document, image }: Planned,
  stored: Deployment | undefined,
): Promise<ImageCopy | null> {
  if (image === null) return null
  const { out, signal } = session
  const source = stored?.source ?? (await planNewImage(session, document.name, image)).body.source
  Object.assign(document.spec, { source })
  const target = source === 'internal_container' ? await requestPushToken(session, stored) : null
  if (target === null || image.startsWith(registryOf(target))) {
    out.emit({ type: 'image', service, image, outcome: 'pulled' })
    out.note(`${service}: the agent pulls ${image} from where it is.`)
    return null
  }
  const found = await readImage(image, signal)
  const { digest } = found
  const before = stored?.source_revision_config.image_uri
  const isStored = before?.endsWith(`@${digest}`) === true
  const bytes = found.blobs.reduce((sum, { size }) => sum + size, 0)
  out.emit({ type: 'image', service, image, digest, bytes, outcome: isStored ? 'unchanged' : 'copied' })
  if (isStored) {
    setImage(document, before)
    return null
  }
  out.note(`${service}: ${image} is copied into the registry of this installation, ${formatBytes(bytes)}.`)
  return { image: found, target }
}

/** Null: the installation has no registry. */
async function requestPushToken(
  { client, signal }: Session,
  stored: Deployment | undefined,
): Promise<PushToken | null> {
  const request = stored
    ? client.call('POST /v2/deployments/{deployment_id}/push-token', { params: { deployment_id: stored.id }, signal })
    : client.call('POST /v2/push-tokens', { signal })
  return request.catch(error => {
    if (error instanceof ApiError && error.code === 'not_configured') return null
    throw error
  })
}

/** The start of all its names: that of a deployment has two more parts, the workspace and the deployment. */
const registryOf = ({ registry_url }: PushToken) => `${registry_url.split('/').slice(0, -2).join('/')}/`

export async function bringImage(
  { out, signal }: Session,
  { service, document, image: name }: Planned,
  { image, target }: ImageCopy,
): Promise<void> {
  const showProgress = (done: number, all: number) =>
    out.progress(`Copying ${name}: ${formatBytes(done)} of ${formatBytes(all)}`)
  const copied = await copyImage(image, { ...target, name: toName(service) }, showProgress, signal)
  out.progress('')
  setImage(document, copied)
}

function setImage({ spec }: Planned['document'], image_uri: string | null | undefined): void {
  Object.assign(spec, { source_revision_config: { image_uri } })
}
