-- Where one message stands in one join; locks the member.
SELECT status FROM {join_member} WHERE join_id = {id} AND event_id = {message} FOR UPDATE
