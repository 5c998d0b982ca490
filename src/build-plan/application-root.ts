// The folder of the application in a source, and the path of its runtime configuration. Pure.
import { normalize } from './source-files.ts'

type Paths = { root_directory?: string | null | undefined; platform_config_path?: string | null | undefined }

/** The folder that is set, or else that of the configuration file, or else the source itself (`''`). */
export const applicationRoot = (root_directory: string | null | undefined, configuration: string | null | undefined) =>
  normalize(root_directory ?? (configuration ? `${configuration}/..` : ''))

/** The path that is set, or else `slipway.json` of the application. */
export const configurationPathOf = ({ root_directory, platform_config_path }: Paths): string =>
  platform_config_path ?? normalize(`${root_directory ?? ''}/slipway.json`)
