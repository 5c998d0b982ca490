// The version of the command line. `npm run cli:package` sets it.

export const VERSION = process.env.SLIPWAY_CLI_VERSION ?? '0.0.0-source'
