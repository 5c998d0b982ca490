// Reads the runtime configuration from the files of a source.
import { describeConfigurationFaults } from '../../build-plan/configuration-faults.ts'
import { RuntimeConfiguration } from '../../build-plan/runtime.schema.ts'
import { PermanentError } from '../engine.ts'
import { readSourceJson } from './read-json.ts'

const MAX_CONFIGURATION_KB = 256

export function readRuntimeConfiguration(folder: string, path: string): RuntimeConfiguration | undefined {
  const value = readSourceJson(folder, path, MAX_CONFIGURATION_KB)
  if (value === undefined) return undefined
  const faults = describeConfigurationFaults(path, value)
  if (faults !== null) throw new PermanentError(faults)
  // The file of graphs has none of these members.
  return 'graphs' in Object(value) ? {} : RuntimeConfiguration.parse(value)
}
