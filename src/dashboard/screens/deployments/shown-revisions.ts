// How many of the newest revisions the pages of a deployment have.
export const SHOWN_REVISIONS = 10
