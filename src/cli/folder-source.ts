// A folder as the source of a deploy: packed, shown and uploaded.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { CONFIGURATION, mayHoldSecrets, readPackageFile, toName } from '../client/archive-rules.ts'
import { type Archive, packFolder } from './archive.ts'
import { type DeploymentPatch, type DeploySource, planNew } from './deploy-source.ts'
import { shellWord, usageError } from './failure.ts'
import { planFolder, showBuildPlan } from './folder-plan.ts'
import { formatBytes } from './output.ts'
import type { Deployment, Session } from './session.ts'

const LONG_MS = 1000

export function requireFolder(given: string): string {
  const folder = resolve(given)
  if (!existsSync(folder)) throw usageError(`There is no folder ${folder}.`)
  if (!statSync(folder).isDirectory()) throw usageError(`${folder} is not a folder. Give the folder to deploy.`)
  return folder
}

export const suggestName = (folder: string): string => toName(readPackage(folder).name ?? basename(folder))

/** Packs the folder and shows its size. From then on the session is about this folder. */
export async function openFolder(session: Session, given: string, listFiles: boolean): Promise<DeploySource> {
  const folder = requireFolder(given)
  session.folder = folder
  // Chooses and shows the installation before the long work. `--dry-run` needs none.
  if (!listFiles) void session.client
  const source_revision_config = existsSync(join(folder, CONFIGURATION)) ? { platform_config_path: CONFIGURATION } : {}
  const archive = await packAndShow(session, folder, listFiles)
  return {
    files: { folder, sha256: archive.sha256 },
    label: 'this folder',
    argument: given === '.' ? '' : ` ${shellWord(given)}`,
    suggestedName: suggestName(folder),
    accepts: ({ source }) => source === 'internal_source',
    async planCreation(name) {
      const body = { name, source: 'internal_source' as const, source_config: {}, source_revision_config, secrets: [] }
      return planNew(session, body)
    },
    patch: deployment => uploadArchive(session, deployment, archive),
  }
}

/** `added`: texts of the archive by name, in place of files of that name. */
export async function packAndShow(
  session: Session,
  folder: string,
  listFiles: boolean,
  added: Record<string, string> = {},
): Promise<Archive> {
  const { out } = session
  const began = Date.now()
  const showLongWork = (count: number) => {
    if (Date.now() - began > LONG_MS) out.progress(`Packing ${folder}: ${count} files`)
  }
  const archive = await packFolder(folder, showLongWork, added)
  out.progress('')
  const { files, content, sha256, unpackedBytes } = archive
  if (files.length === 0) throw usageError(`${folder} has no files to deploy.`, 'slipway templates')
  const size = { files: files.length, bytes: content.size, unpacked_bytes: unpackedBytes, sha256 }
  out.emit({ type: 'archive', ...size, ...(listFiles && { names: files }) })
  if (listFiles && !out.isMachine) for (const file of files) out.text(file)
  const count = files.length === 1 ? '1 file' : `${files.length} files`
  out.note(`${count}, ${formatBytes(unpackedBytes)}, packed ${formatBytes(content.size)}`)
  const secrets = files.filter(mayHoldSecrets)
  if (secrets.length > 0) out.note(`${secrets.join(', ')} may hold secrets. List it in .slipwayignore to leave it out.`)
  showBuildPlan(session, planFolder(folder, files, added))
  return archive
}

export async function uploadArchive(
  session: Session,
  { id }: Deployment,
  { content }: Archive,
): Promise<DeploymentPatch> {
  const { client, out, signal } = session
  const uploaded = await client.upload(id, () => streamWithProgress(session, content), { signal })
  out.progress('')
  out.emit({ type: 'upload', size: uploaded.size, sha256: uploaded.sha256 })
  return { source_revision_config: { source_tarball_path: uploaded.object_path } }
}

const CHUNK_BYTES = 65_536
const BAR_CELLS = 24
/** Counts what the connection has taken. */
function streamWithProgress({ out }: Session, content: Blob): ReadableStream<Uint8Array> {
  let sent = 0
  return new ReadableStream({
    async pull(controller) {
      const cells = Math.floor((BAR_CELLS * sent) / content.size)
      const bar = '█'.repeat(cells) + '░'.repeat(BAR_CELLS - cells)
      out.progress(`Uploading ${bar} ${formatBytes(sent)} of ${formatBytes(content.size)}`)
      if (sent >= content.size) return controller.close()
      const chunk = content.slice(sent, sent + CHUNK_BYTES)
      controller.enqueue(new Uint8Array(await chunk.arrayBuffer()))
      sent += chunk.size
    },
  })
}

function readPackage(folder: string): ReturnType<typeof readPackageFile> {
  const file = join(folder, 'package.json')
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return {}
  try {
    return readPackageFile(readFileSync(file, 'utf8'))
  } catch (error) {
    throw usageError(`${file} is not JSON: ${(error as Error).message}.`)
  }
}
