"""Cue files: their schema, the words they are chosen from, and the one that fits a pair."""

from relaygen_lmeval.cuefile.find import cue_file_for, find_cue_file, list_cue_files
from relaygen_lmeval.cuefile.schema import CueFile, read_cue_file, write_cue_file
from relaygen_lmeval.cuefile.words import candidate_forms

__all__ = [
    "CueFile",
    "candidate_forms",
    "cue_file_for",
    "find_cue_file",
    "list_cue_files",
    "read_cue_file",
    "write_cue_file",
]
