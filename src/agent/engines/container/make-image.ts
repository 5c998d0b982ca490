// From the files or the image of a revision to the image that runs, or to the files of a site.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { planSource } from '../../builds/source-plan.ts'
import { type Artifact, type BuildTask, PermanentError, type RevisionSpec, type SourceTree } from '../../engine.ts'
import { buildDockerfile, readBaseImages } from '../../images/build-image.ts'
import { buildInBaseImage, buildSite } from '../../images/build-in-base-image.ts'
import type { DockerApi } from '../../images/docker-api.ts'
import { type BaseImages, chooseBaseImage } from '../../images/language-images.ts'
import type { Images } from './images.ts'
import { sidecarImagesOf } from './replica-spec.ts'

export type ImageMaker = {
  api: DockerApi
  owner: string
  images: Images
  base_images: BaseImages
  commandEnv: Record<string, string>
  /** The folder of the deployment. */
  folder: string
}
type Made = Pick<Artifact, 'location' | 'start_command'> & Partial<Artifact>

export async function makeImage(
  maker: ImageMaker,
  spec: RevisionSpec,
  tree: SourceTree | null,
  task: BuildTask,
): Promise<Made> {
  const { images, folder: own } = maker
  if (!tree) {
    if (!spec.image_uri) throw new PermanentError('The deployment has no image. Set source_revision_config.image_uri.')
    const location = await images.pin(spec.image_uri, { fresh: true, own }, spec, task)
    return { location, start_command: null }
  }
  const job = { api: maker.api, owner: maker.owner, spec, task }
  const plan = planSource(tree, true, task)
  if (plan.provider === 'dockerfile') {
    const folder = join(tree.folder, plan.root)
    for (const base of readBaseImages(folder)) await images.pullBaseImage(base, { fresh: false, own }, spec, task)
    return { location: await buildDockerfile(job, folder), start_command: tree.start_command }
  }
  if (plan.site) refuseCompanions(spec)
  const { image, warning } = chooseBaseImage(plan, maker.base_images)
  if (warning) task.log(warning, 'WARNING')
  const pin = () => images.pin(image, { fresh: false, own: null }, spec, task)
  const planned = { ...job, base: { name: image, pin }, plan, tree, commandEnv: maker.commandEnv }
  return await (plan.site ? buildSite(planned, plan.site) : buildInBaseImage(planned))
}

/** The images of its sidecars and init containers: from the name to the digest. */
export async function pinSidecarImages(
  { images, folder: own }: ImageMaker,
  spec: RevisionSpec,
  task: BuildTask,
): Promise<Record<string, string>> {
  fs.mkdirSync(own, { recursive: true, mode: 0o700 })
  const pinned: Record<string, string> = {}
  for (const { image, fresh } of sidecarImagesOf(spec.resources))
    pinned[image] ??= await images.pin(image, { fresh, own }, spec, task)
  return pinned
}

/** A site has no container that others could run beside. */
function refuseCompanions({ resources }: RevisionSpec): void {
  const named = (['sidecars', 'init_containers', 'volume_mounts'] as const).filter(name => resources[name]?.length)
  if (named.length > 0)
    throw new PermanentError(
      `A static site is served without a container, so \`${named.join('` and `')}\` cannot be used. ` +
        'Remove them, or set `start_command` in slipway.json.',
    )
}
