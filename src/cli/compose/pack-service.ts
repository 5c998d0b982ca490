// Packs the folder that a service of a compose file is built from.
import { existsSync, lstatSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { CONFIGURATION } from '../../client/archive-rules.ts'
import type { AddedFiles, Archive } from '../archive.ts'
import { usageError } from '../failure.ts'
import { type FolderPlan, planFolder, showBuildPlan } from '../folder-plan.ts'
import { packAndShow } from '../folder-source.ts'
import type { Session } from '../session.ts'
import type { Planned } from './translate.ts'

const DOCKERFILE = 'Dockerfile'

export type PackedFolder = { archive: Archive; plan: FolderPlan }

/** The command of a service and the port of its image become part of its archive. */
export async function packService(
  session: Session,
  one: Planned,
  { root, listFiles }: { root: string; listFiles: boolean },
): Promise<PackedFolder | null> {
  const { out } = session
  const { service, document, image, build } = one
  if (!build) {
    out.emit({ type: 'service', service, deployment: document.name, image, notes: [] })
    out.note(`${service}: ${image}`)
    return null
  }
  const folder = resolve(root, build.folder)
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw usageError(`The service ${service} is built in ${folder}, which is no folder.`)
  const { start_command, port } = build
  const hasOwn = existsSync(join(folder, CONFIGURATION))
  if (start_command !== null) refuseCommand(folder, one, hasOwn)
  const exposed = exposePort(folder, service, port)
  const notes = exposed.note === undefined ? [] : [exposed.note]
  out.emit({ type: 'service', service, deployment: document.name, folder, notes })
  for (const sentence of [`${service}: ${folder}`, ...notes]) out.note(sentence)
  const added = {
    ...(start_command !== null && { [CONFIGURATION]: JSON.stringify({ start_command }) }),
    ...exposed.added,
  }
  const archive = await packAndShow(session, folder, listFiles, added)
  const plan = planFolder(folder, archive)
  showBuildPlan(session, plan.plan)
  if (hasOwn || start_command !== null)
    Object.assign(document.spec, { source_revision_config: { platform_config_path: CONFIGURATION } })
  return { archive, plan }
}

function refuseCommand(folder: string, { service }: Planned, hasOwn: boolean): void {
  if (hasOwn)
    throw usageError(`The service ${service} has a \`command\` and a ${CONFIGURATION}. Write it there, and remove it.`)
  const dockerfile = join(folder, DOCKERFILE)
  if (existsSync(dockerfile) && argumentsOf(readFileSync(dockerfile, 'utf8'), 'ENTRYPOINT').length > 0)
    throw usageError(`The \`command\` of ${service} would replace the ENTRYPOINT of its Dockerfile. Write it there.`)
}

/** The words of all instructions of a Dockerfile with that name. */
function argumentsOf(dockerfile: string, instruction: string): string[] {
  return dockerfile.split('\n').flatMap(line => {
    const [name = '', ...words] = line.trim().split(/\s+/)
    return name.toUpperCase() === instruction ? words : []
  })
}

type Exposed = { added: AddedFiles; note?: string }

/** An image is served on the one port that it exposes. */
export function exposePort(folder: string, service: string, port: string | null): Exposed {
  const file = join(folder, DOCKERFILE)
  // The target of a link is not in the folder, and would be in the upload.
  if (port === null || !lstatSync(file, { throwIfNoEntry: false })?.isFile()) return { added: {} }
  const text = readFileSync(file, 'utf8')
  const exposed = argumentsOf(text, 'EXPOSE').map(exposed => exposed.split('/', 1)[0])
  if (exposed.includes(port)) return { added: {} }
  if (exposed.length > 0)
    return {
      added: {},
      note: `${service}: its Dockerfile exposes ${exposed.join(', ')}, and not ${port}. It has to listen on PORT.`,
    }
  return {
    added: { [DOCKERFILE]: `${text}\nEXPOSE ${port}\n` },
    note: `${service}: it listens on ${port}, so its Dockerfile gets \`EXPOSE ${port}\` in the upload.`,
  }
}
