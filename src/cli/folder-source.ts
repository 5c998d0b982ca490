// A folder as the source of a deploy: packed, shown and uploaded.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, join, relative, resolve } from 'node:path'
import { mayHoldSecrets, readPackageFile, toName } from '../client/archive-rules.ts'
import { type AddedFiles, type Archive, findFiles, packFolder } from './archive.ts'
import { type DeploySource, planNew, type UploadTarget } from './deploy-source.ts'
import { shellWord, usageError } from './failure.ts'
import { planFolder, showBuildPlan } from './folder-plan.ts'
import { findGraphFolder, readGraphVariables } from './graph-folder.ts'
import { formatBytes } from './output.ts'
import { rootOf } from './remote-sources.ts'
import type { Session } from './session.ts'

const LONG_MS = 1000

export function requireFolder(given: string): string {
  const folder = resolve(given)
  if (!existsSync(folder)) throw usageError(`There is no folder ${folder}.`)
  if (!statSync(folder).isDirectory()) throw usageError(`${folder} is not a folder. Give the folder to deploy.`)
  return folder
}

export const suggestName = (folder: string): string => toName(readPackage(folder).name ?? basename(folder))

type FolderOptions = { root: string | undefined; listFiles: boolean }

/** Packs the folder and shows its size. From then on the session is about this folder. */
export async function openFolder(
  session: Session,
  given: string,
  { root, listFiles }: FolderOptions,
): Promise<DeploySource> {
  const folder = requireFolder(given)
  session.folder = folder
  // Chooses and shows the installation before the long work. `--dry-run` needs none.
  if (!listFiles) void session.client
  const graphs = root === undefined ? findGraphFolder(folder) : { root: folder, only: [], platform_config_path: null }
  const archive = await packAndShow(session, graphs.root, listFiles, {}, graphs.only)
  const { platform_config_path } = graphs
  const source_revision_config = platform_config_path === null ? {} : { platform_config_path }
  const argument = given === '.' ? '' : ` ${shellWord(given)}`
  const source_config = rootOf(root)
  return {
    files: {
      folder,
      sha256: archive.sha256,
      showPlan: deployment => {
        const { source_config: stored, source_revision_config: last } = deployment ?? {}
        const settings = { ...stored, ...last, ...source_config, ...source_revision_config }
        const plan = planFolder(graphs.root, archive, settings, argument)
        showBuildPlan(session, plan.plan)
        return plan
      },
      variables: root === undefined ? readGraphVariables(folder, session.out) : [],
      upload: (target = { ...source_config, ...source_revision_config }) => uploadArchive(session, target, archive),
    },
    label: 'this folder',
    argument: argument + (root === undefined ? '' : ` --root ${shellWord(root)}`),
    suggestedName: suggestName(root === undefined ? folder : join(folder, root)),
    accepts: ({ source }) => source === 'internal_source',
    planCreation: (name, secrets) =>
      planNew(session, { name, source: 'internal_source', source_config, source_revision_config, secrets }),
    patch: async deployment => ({
      source_config,
      source_revision_config: {
        ...source_revision_config,
        source_tarball_path: await uploadArchive(session, deployment.id, archive),
      },
    }),
  }
}

/** `added`: texts of the archive by name, in place of files of that name. `only`: the folders that it has. */
export async function packAndShow(
  session: Session,
  folder: string,
  listFiles: boolean,
  added: AddedFiles = {},
  only: string[] = [],
): Promise<Archive> {
  const { out } = session
  const began = Date.now()
  const found = findFiles(folder, added, only)
  const showLongWork = (count: number) => {
    if (Date.now() - began > LONG_MS)
      out.progress(`Packing ${folder}: ${count} of ${found.found.length} files, ${formatBytes(found.bytes)}`)
  }
  if (found.found.length === 0 && Object.keys(added).length === 0)
    throw usageError(`${folder} has no files to deploy.`, 'slipway templates')
  const archive = await packFolder(folder, showLongWork, found)
  out.progress('')
  const { files, content, sha256, unpackedBytes } = archive
  const size = { files: files.length, bytes: content.size, unpacked_bytes: unpackedBytes, sha256 }
  out.emit({ type: 'archive', ...size, left_out: found.secretFiles, ...(listFiles && { names: files }) })
  if (listFiles && !out.isMachine) for (const file of files) out.text(file)
  const count = files.length === 1 ? '1 file' : `${files.length} files`
  out.note(`${count}, ${formatBytes(unpackedBytes)}, packed ${formatBytes(content.size)}`)
  const included = files.filter(mayHoldSecrets)
  if (included.length > 0) out.note(`${listSome(included)} may hold secrets, and is packed.`)
  if (found.secretFiles.length > 0) {
    const example = found.secretFiles.find(path => basename(path).includes('.env'))
    const remedy = example
      ? `To set its variables: --secrets-file ${shellWord(relative(process.cwd(), join(folder, example)))}`
      : `To pack it: a line !${found.secretFiles[0]} in .slipwayignore`
    out.note(`Left out, as it may hold secrets: ${listSome(found.secretFiles)}. ${remedy}`)
  }
  return archive
}

const MAX_LISTED = 10
const listSome = (names: string[]): string =>
  names.length > MAX_LISTED
    ? `${names.slice(0, MAX_LISTED).join(', ')} and ${names.length - MAX_LISTED} more`
    : names.join(', ')

/** `target`: the id of the deployment, or the settings of a new one. */
export async function uploadArchive(
  { client, out, signal, ...session }: Session,
  target: UploadTarget,
  { content }: Archive,
): Promise<string> {
  const uploaded = await client.upload(target, () => streamWithProgress({ ...session, client, out, signal }, content), {
    signal,
  })
  out.progress('')
  out.emit({ type: 'upload', size: uploaded.size, sha256: uploaded.sha256 })
  return uploaded.object_path
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
