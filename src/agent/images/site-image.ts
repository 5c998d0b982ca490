// Makes the image of a static site, for engines without a router: its files, and the server of sites in Node's image.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, relative } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { packTar } from 'modern-tar/fs'
import { type BaseImage, commitContainer, uploadTar } from './build-in-base-image.ts'
import { deploymentLabels, REVISION_LABEL, ROLE_LABEL } from './container-labels.ts'
import { type BuildJob, builtImageName, watchBuild } from './watched-build.ts'

const SERVER = fileURLToPath(new URL('../site/site-main.ts', import.meta.url))
const SERVER_ROOT = dirname(dirname(SERVER))
const SITE_FOLDER = 'site'
const SERVER_FOLDER = 'slipway'

/** Returns the id of the image. `base` has Node 22.18 or newer, which runs TypeScript. `site`: a copy of its files. */
export async function buildSiteImage(
  { api, owner, spec, task }: BuildJob,
  base: BaseImage,
  site: string,
  user: number,
): Promise<string> {
  const { signal, failed } = watchBuild(task)
  const labels = { ...deploymentLabels(owner, spec.deployment_id), [REVISION_LABEL]: spec.revision_id }
  const name = `slipway-${spec.name}-build-${randomBytes(6).toString('hex')}`
  const body = { Image: await base.pin(), Cmd: ['true'], Labels: { ...labels, [ROLE_LABEL]: 'build' } }
  const container = await api.post<{ Id: string }>('/containers/create', body, { name })
  const at = `/containers/${container.Id}`
  const owned = { uid: user, gid: user }
  try {
    const files = packTar(site, { map: header => ({ ...header, ...owned, name: `${SITE_FOLDER}/${header.name}` }) })
    await uploadTar(api, at, Readable.from(files), signal)
    await uploadTar(api, at, Readable.from(packTar(listServerFiles())), signal)
    const program = `/${SERVER_FOLDER}/${relative(SERVER_ROOT, SERVER)}`
    return await commitContainer(api, container.Id, {
      repo: builtImageName(spec),
      tag: spec.revision_id,
      changes: [
        `USER ${user}:${user}`,
        `ENTRYPOINT ${JSON.stringify(['node', program])}`,
        `CMD ${JSON.stringify([`/${SITE_FOLDER}`])}`,
      ],
      signal,
    })
  } catch (error) {
    throw failed(error)
  } finally {
    await api.removeContainer(container.Id).catch(() => {})
  }
}

/** The program and the modules that it imports, which import nothing but each other and Node. */
function listServerFiles() {
  const files = new Set([SERVER])
  for (const file of files)
    for (const line of readFileSync(file, 'utf8').split('\n')) {
      const path = /^(?:import|\}) (?!type ).*from '(\.[\w./-]+)'$/.exec(line)?.[1]
      if (path) files.add(fileURLToPath(new URL(path, `file://${file}`)))
    }
  const sources = [...files].map(file => ({
    type: 'content' as const,
    content: readFileSync(file, 'utf8'),
    target: `${SERVER_FOLDER}/${relative(SERVER_ROOT, file)}`,
    mode: 0o644,
  }))
  const manifest = { type: 'content' as const, content: '{"type":"module"}', target: `${SERVER_FOLDER}/package.json` }
  return [...sources, manifest]
}
