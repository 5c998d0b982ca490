// The number of newest revisions on the pages of a deployment.
export const SHOWN_REVISIONS = 10
