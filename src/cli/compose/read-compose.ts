// Reads a compose file, with the files that it names, and translates it.
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, isAbsolute, relative, resolve } from 'node:path'
import { parseEnvFile } from '../../protocol/env-file.ts'
import { readDocumentFiles } from '../document-files.ts'
import { refuseDocuments } from '../document-plan.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { type Translation, translateCompose } from './translate.ts'

/** `name`: of the group, in place of that in the file. Throws all that cannot be translated, with its lines. */
export async function readCompose(file: string, name: string | undefined): Promise<Translation> {
  const { documents, faults } = await readDocumentFiles([file])
  if (faults.length > 0) throw refuseDocuments(faults)
  const [document] = documents
  if (!document) throw usageError(`${file} is empty.`)
  const folder = dirname(file)
  const outside = new Set<string>()
  const readEnvFile = (path: string) => {
    const at = resolve(folder, path)
    // A device has no end.
    if (!statSync(at, { throwIfNoEntry: false })?.isFile()) return null
    // A link in a folder of somebody else may lead to credentials of this user.
    const place = relative(realpathSync(folder), realpathSync(at))
    if (place.startsWith('..') || isAbsolute(place)) outside.add(path)
    return parseEnvFile(readFileSync(at, 'utf8'))
  }
  const translation = translateCompose(document.value, {
    suggested: basename(folder),
    name,
    variables: readEnvFile('.env') ?? {},
    shell: process.env,
    readEnvFile,
  })
  if (outside.size > 0)
    translation.notes.push(`Variables are read from outside of ${folder}: \`${[...outside].join('`, `')}\`.`)
  if (translation.faults.length === 0) return translation
  const errors = translation.faults.map(({ path, message }) => ({
    loc: [`${document.placeOf(path).file}:${document.placeOf(path).line}`, path.join('.')],
    msg: message,
  }))
  const message = `${basename(file)} cannot be deployed as it is. Nothing was changed.`
  throw new CommandFailure(EXIT.failed, 'compose_not_translated', message, undefined, undefined, errors)
}
