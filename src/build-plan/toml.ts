// TOML files of a source. A file that is not valid is one that says nothing here: its own tool names the fault.
import { parse, type TomlTable } from 'smol-toml'
import type { Folder } from './source-files.ts'

export const readToml = (folder: Folder, name: string): TomlTable | null => folder.parse(name, tryToParse)

function tryToParse(text: string): TomlTable | null {
  try {
    return parse(text)
  } catch {
    return null
  }
}
