// The function of the application that makes embeddings, or an object of the library that does.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

export async function loadEmbed({ path, name }, folder) {
  let module
  try {
    module = await import(pathToFileURL(resolve(folder, path)).href)
  } catch (error) {
    throw new Error(`\`store.index.embed\`: ${path} could not be loaded: ${error.message}`, { cause: error })
  }
  const value = module[name] ?? module.default?.[name]
  if (typeof value === 'function') return value
  if (typeof value?.embedDocuments === 'function') return texts => value.embedDocuments(texts)
  throw new Error(`\`store.index.embed\`: the export \`${name}\` of ${path} is neither a function nor \`Embeddings\`.`)
}
