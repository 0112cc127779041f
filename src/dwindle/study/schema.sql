-- One study. Times are seconds since 1970. A place is one rater's turn at one pair: a pair has exactly as many
-- places as it may have raters, so it cannot be given to more.
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE rater (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest BLOB UNIQUE);

CREATE TABLE pair (
    id INTEGER PRIMARY KEY,                                   -- the order of asking
    name TEXT NOT NULL,                                       -- the id in the systems' files
    is_check INTEGER NOT NULL CHECK (is_check IN (0, 1)),
    source TEXT NOT NULL,
    a TEXT NOT NULL,
    b TEXT NOT NULL,
    drawn_left TEXT NOT NULL CHECK (drawn_left IN ('a', 'b')) -- for a platform that shows one page to all raters
);

-- What a rater may try first; no ballot on it is kept.
CREATE TABLE practice (source TEXT NOT NULL, shown_left TEXT NOT NULL, shown_right TEXT NOT NULL);

CREATE TABLE place (
    id INTEGER PRIMARY KEY,
    pair INTEGER NOT NULL REFERENCES pair,
    shown_left TEXT NOT NULL CHECK (shown_left IN ('a', 'b')),
    rater INTEGER REFERENCES rater,                           -- who holds it
    turn INTEGER,                                             -- the how-manieth place of that rater
    given REAL,
    lease REAL NOT NULL DEFAULT 0,                            -- until when it is held without a ballot
    answered INTEGER NOT NULL DEFAULT 0 CHECK (answered IN (0, 1)),
    UNIQUE (pair, rater),
    CHECK (answered = 0 OR rater IS NOT NULL)
);
CREATE INDEX place_waiting ON place (pair, id) WHERE answered = 0;
CREATE INDEX place_of_rater ON place (rater, turn);

-- One ballot a rater and pair. It counts while its place is still held by its rater: a ballot that comes after the
-- place was passed on is kept and does not count.
CREATE TABLE ballot (
    pair INTEGER NOT NULL REFERENCES pair,
    rater INTEGER NOT NULL REFERENCES rater,
    place INTEGER NOT NULL REFERENCES place,
    answers TEXT NOT NULL CHECK (json_type(answers) = 'object'), -- by the fields of the study's questions
    comment TEXT NOT NULL,
    seconds REAL,                                             -- with the page in view; none without a script
    first REAL NOT NULL,
    last REAL NOT NULL,
    changes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (pair, rater)
) WITHOUT ROWID;
